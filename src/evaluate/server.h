#pragma once
// The evaluator's HTTP face (docs/protocols.md): /v2/evaluations, /v2/problems, the legacy /eval, and the
// GETs.
#include <memory>

#include "evaluate/evaluator.h"
#include "net/http.h"
#include "router/router.h"

namespace tritonforge::evaluate {

// Reads the body of POST /v2/evaluations or, with `legacy`, of POST /eval. Throws kUsage naming the field.
EvaluationRequest evaluation_request_from_json(const Json& body, bool legacy);

// The same of POST /v2/problems, which takes all but the candidate.
EvaluationRequest problem_request_from_json(Json body);

class EvaluatorServer {
 public:
  // `compile_servers`: that it has kernels lowered by, for /health; none: it lowers them itself.
  EvaluatorServer(Evaluator& evaluator, net::ServerOptions options, const router::Router* compile_servers = nullptr);
  ~EvaluatorServer();
  void start();
  void stop(double grace_s = 5);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::evaluate
