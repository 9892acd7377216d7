#include <fmt/format.h>

#include <memory>

#include "base/filesystem.h"
#include "base/process.h"
#include "cli/commands.h"
#include "dataset/problem.h"
#include "evaluate/server.h"

namespace tritonforge::cli {
namespace {

void add_evaluator_options(CLI::App& command, evaluate::EvaluatorOptions& options) {
  command.add_option("--mode", options.mode, "interpret (CPU) or live (GPU)")->capture_default_str();
  command.add_option("--python", options.python, "Python with torch and triton (TRITONFORGE_PYTHON, else the build's)");
  command.add_option("--sandbox", options.sandbox, "auto, or strict: refuse to run where the self-test breaks out")
      ->capture_default_str();
  command
      .add_option("--candidate-timeout", options.candidate_timeout_s,
                  "seconds for import, build and trials of one candidate; 0: 30, in live mode 120")
      ->capture_default_str();
  command
      .add_option("--max-elements", options.max_elements,
                  "sizes are reduced until a problem's tensors have no more elements; 0: interpret mode 131072, live "
                  "mode as they are")
      ->capture_default_str();
  command
      .add_option("--max-flops", options.max_flops,
                  "the same for operations of one forward; 0: interpret mode 134217728, live mode as they are")
      ->capture_default_str();
}

void print_text(const Verdict& v) {
  fmt::print("{}  stage {}  compiled {}  correct {}  ({:.2f} s)\n", v.correct && !v.cheated() ? "PASS" : "FAIL",
             name_of(v.stage), v.compiled, v.correct, v.wall_s);
  for (const auto& [target, state] : v.compile_targets) fmt::print("  {:<8} {}\n", target, state);
  if (!v.kernels.empty()) fmt::print("  kernels  {}\n", fmt::join(v.kernels, ", "));
  for (const auto& t : v.trials)
    fmt::print("  trial    {}  max |error| {:.3g}\n", t.passed ? "ok" : t.mismatch, t.max_abs_error);
  if (v.stage == Stage::kTimed) {
    fmt::print("  time     {:.4f} ms, reference {:.4f} ms, speedup {:.2f} to {:.2f}\n", v.runtime.median,
               v.ref_runtime.median, v.speedup_low, v.speedup_high);
  }
  for (const auto& f : v.flags)
    fmt::print("  {}  {}: {}\n", f.cheat() ? "CHEAT" : "doubt", name_of(f.kind), f.evidence);
  if (v.fault != Fault::kNone) fmt::print("  {}\n", name_of(v.fault));
  if (!v.diagnostics.empty()) fmt::print("{}\n", v.diagnostics);
}

struct EvaluateArguments {
  evaluate::EvaluatorOptions options;
  evaluate::EvaluationRequest request;
  std::string problem, candidate;
  bool json = false, reproducible = false;
};

}  // namespace

void add_evaluate_command(CLI::App& app) {
  auto* command = app.add_subcommand("evaluate", "judges one candidate kernel against its PyTorch problem");
  auto arguments = std::make_shared<EvaluateArguments>();
  command->add_option("--problem", arguments->problem, "file with class Model, get_inputs, get_init_inputs")
      ->required();
  command->add_option("--candidate", arguments->candidate, "file with class ModelNew")->required();
  add_evaluator_options(*command, arguments->options);
  command->add_option("--backend", arguments->request.backend, "language of the candidate")->capture_default_str();
  command->add_option("--seed", arguments->request.seed, "seed of weights and inputs")->capture_default_str();
  command->add_flag("--reproducible", arguments->reproducible,
                    "seeds from --seed alone, without this process's secret");
  command->add_option("--trials", arguments->request.num_correct_trials, "correctness trials")->capture_default_str();
  command->add_option("--perf-trials", arguments->request.num_perf_trials, "timed calls (live mode)")
      ->capture_default_str();
  command->add_option("--timeout", arguments->request.timeout_s, "seconds for the whole evaluation")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print the verdict as JSON");
  command->footer(
      "example: tritonforge evaluate --problem problems/level1/19_relu.py --candidate relu_triton.py --json");
  command->callback([arguments] {
    EvaluateArguments& a = *arguments;
    a.request.problem_source = read_file(a.problem);
    a.request.candidate = read_file(a.candidate);
    a.request.fresh_seeds = !a.reproducible;
    evaluate::Evaluator evaluator(a.options);
    const Verdict verdict = evaluator.evaluate(a.request);
    if (a.json) {
      fmt::print("{}\n", to_json(verdict).dump(2));
    } else {
      print_text(verdict);
    }
  });
}

void add_serve_evaluator_command(CLI::App& serve) {
  struct Arguments {
    evaluate::EvaluatorOptions options{.workers = 2};
    net::ServerOptions server{.port = 18188};
    std::string device;
  };
  auto* command = serve.add_subcommand("evaluator", "judges candidates over HTTP");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--port", arguments->server.port, "0: any free port")->capture_default_str();
  command->add_option("--host", arguments->server.host, "address to bind; other than loopback needs --api-key")
      ->capture_default_str();
  command->add_option("--api-key", arguments->server.api_key, "bearer key that clients must send");
  command->add_option("--workers", arguments->options.workers, "evaluations at once")->capture_default_str();
  command->add_option("--max-queue", arguments->options.max_queue, "evaluations waiting beyond that; more answer 503")
      ->capture_default_str();
  command->add_option("--device", arguments->device,
                      "live mode: index or UUID of the GPU (sets CUDA_VISIBLE_DEVICES of the children)");
  add_evaluator_options(*command, arguments->options);
  command->footer("example: tritonforge serve evaluator --port 18188 --mode interpret --workers 2");
  command->callback([arguments] {
    SignalWaiter signals;
    if (!arguments->device.empty() && arguments->device != "cpu") {
      std::string device = arguments->device;
      if (device.rfind("cuda:", 0) == 0) device = device.substr(5);
      ::setenv("CUDA_VISIBLE_DEVICES", device.c_str(), 1);
    }
    // Each evaluation holds a server thread while it runs or waits, so the queue is the evaluator's own.
    arguments->server.worker_threads = arguments->options.workers + 2;
    arguments->server.max_queue = static_cast<size_t>(arguments->options.max_queue);
    evaluate::Evaluator evaluator(arguments->options);
    evaluate::EvaluatorServer server(evaluator, arguments->server);
    server.start();
    fmt::print("evaluator ready on {}\n", server.url());
    std::fflush(stdout);
    signals.block();
    server.stop(10);
  });
}

}  // namespace tritonforge::cli
