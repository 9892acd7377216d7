#pragma once
// The evaluator's HTTP face (docs/protocols.md): /v2/evaluations, the legacy /eval, and the GETs.
#include <memory>

#include "evaluate/evaluator.h"
#include "net/http.h"

namespace tritonforge::evaluate {

// Reads the body of POST /v2/evaluations or, with `legacy`, of POST /eval. Throws kUsage naming the field.
EvaluationRequest evaluation_request_from_json(const Json& body, bool legacy);

class EvaluatorServer {
 public:
  EvaluatorServer(Evaluator& evaluator, net::ServerOptions options);
  ~EvaluatorServer();
  void start();
  void stop(double grace_s = 5);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::evaluate
