#pragma once
// Role `compile` of serve evaluator: compiles Triton IR and kernels of other languages for any target, with its limits,
// on a machine that needs no GPU and sees no candidate's Python. And its client, for machines that replay and time.
//   POST /v2/lowerings {"language", "text", "target", "options", "binary": false}
//     -> a line of JSON {"ok", "error", "shape"} and, where it was asked for and is ok, "\n" and the binary behind it
#include <memory>
#include <string>
#include <vector>

#include "evaluate/lowering.h"
#include "evaluate/options.h"
#include "net/http.h"
#include "router/router.h"

namespace tritonforge::evaluate {

class CompileServer {
 public:
  // Starts the Python parent and tests the sandbox. Throws kMachine, kUsage.
  CompileServer(const EvaluatorOptions& options, net::ServerOptions http);
  ~CompileServer();
  void start();
  void stop(double grace_s = 5);
  std::string url() const;
  Refusals refusals() const;  // Evaluator::refusals

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One of the router's compile servers does it, the least busy one; a lost one's work goes to another.
LoweringPool::Elsewhere compile_at(router::Router& servers);

}  // namespace tritonforge::evaluate
