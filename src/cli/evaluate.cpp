#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/filesystem.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/can_listen.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/own_evaluator.h"
#include "evaluate/asks_nobody.h"
#include "evaluate/compile_server.h"
#include "evaluate/front.h"
#include "evaluate/server.h"

namespace tritonforge::cli {
namespace {

void print_text(const Verdict& v) {
  fmt::print("{}  stage {}  compiled {}  correct {}  ({:.2f} s)\n", v.correct && !v.cheated() ? "PASS" : "FAIL",
             name_of(v.stage), v.compiled, v.correct, v.wall_s);
  for (const auto& [target, state] : v.compile_targets) fmt::print("  {:<8} {}\n", target, state);
  for (const auto& [name, sizes] : reduced_sizes(v.notes))
    fmt::print("  size     {} {}, to judge in time\n", name, sizes);
  if (!v.kernels.empty()) fmt::print("  kernels  {}\n", fmt::join(v.kernels, ", "));
  if (v.own_share) fmt::print("  share    {:.1f} % of the work is the kernels' own\n", 100 * *v.own_share);
  if (!v.claimed.empty()) fmt::print("  claimed  {} (by the candidate's own process)\n", fmt::join(v.claimed, ", "));
  for (const auto& t : v.trials)
    fmt::print("  trial    {}  max |error| {:.3g}\n", t.passed ? "ok" : t.mismatch, t.max_abs_error);
  if (v.stage == Stage::kTimed) {
    fmt::print("  time     {:.4f} ms, reference {:.4f} ms, speedup {:.2f} to {:.2f}\n", v.runtime.median,
               v.ref_runtime.median, v.speedup_low, v.speedup_high);
    const auto baseline = [](const char* name, const Timing& timing, double speedup) {
      if (speedup > 0) fmt::print("  against  {} {:.4f} ms: {:.2f} at least\n", name, timing.median, speedup);
    };
    baseline("eager", v.eager_runtime, v.eager_speedup);
    baseline("torch.compile", v.torch_compile_runtime, v.torch_compile_speedup);
  }
  fmt::print("{}", describe(v.counters));
  for (const auto& f : v.flags)
    fmt::print("  {}  {}: {}\n", f.cheat() ? "CHEAT" : "doubt", name_of(f.kind), f.evidence);
  if (v.fault != Fault::kNone) fmt::print("  {}\n", name_of(v.fault));
  if (!v.diagnostics.empty()) fmt::print("{}\n", v.diagnostics);
}

struct EvaluateFlags {
  evaluate::EvaluatorOptions evaluator{.workers = 1, .once = true};
  evaluate::EvaluationRequest request;
  std::string problem, candidate;
  bool json = false, reproducible = false;

  template <typename V>
  void describe(V& v) {
    v("problem", problem, required(), "file with class Model, get_inputs, get_init_inputs");
    v("candidate", candidate, required(), "file with class ModelNew");
    v("seed", request.seed, "seed of weights and inputs");
    v("reproducible", reproducible, "seeds from --seed alone, without this process's secret");
    v("json", json, "print the verdict as JSON");
  }
};

enum class EvaluatorRole { kAll, kFront, kCompile, kPerf };
constexpr std::array<std::string_view, 4> names_of(EvaluatorRole) { return {"all", "front", "compile", "perf"}; }

struct EvaluatorFlags {
  EvaluatorRole role = EvaluatorRole::kAll;
  evaluate::PeerOptions peers;
  evaluate::EvaluatorOptions evaluator;
  net::ServerOptions http{.port = 18188};
  net::PeerKey peer_key;

  template <typename V>
  void describe(V& v) {
    v("role", role,
      "all: one server does everything; or each part on machines of its own, as many as there are: front takes "
      "requests, compile lowers kernels, perf replays and times");
    v.part(peers);
    v.part(peer_key);
    v.part(evaluator);
    v.part(http);
  }
  void validate() const {
    const bool front = role == EvaluatorRole::kFront, perf = role == EvaluatorRole::kPerf;
    if (!peers.perf_servers.empty() != front)
      fail(ErrorKind::kUsage, "--role front needs --perf-servers, and no other role takes any");
    if (!peers.compile_servers.empty() && !front && !perf)
      fail(ErrorKind::kUsage, "--compile-servers is for --role front and --role perf");
  }
};

template <typename Server>
void serve_until_signal(SignalWaiter& signals, std::optional<EndsAtSignal>& starting, Server& server,
                        const evaluate::Refusals& refusals) {
  server.start();
  starting.reset();
  fmt::print("evaluator ready on {}\n", server.url());
  for (const auto& refused : refusals.all()) fmt::print("  {}\n", refused.text());
  std::fflush(stdout);
  signals.block();
  server.stop(/*grace_s=*/10);
}

// Before any thread and the Python parents, which have it too then.
void cut_off(evaluate::SandboxRule rule) {
  const std::string state = evaluate::ask_nobody();
  if (state.starts_with("enforced")) return;
  if (rule == evaluate::SandboxRule::kStrict)
    fail(ErrorKind::kMachine, "evaluator: --sandbox strict, but it could connect to other servers: {}", state);
  log::warn("evaluator: it could connect to other servers, if somebody broke into it: {}", state);
}

void serve_evaluator(EvaluatorFlags flags) {
  flags.validate();
  flags.http.read_secrets();
  flags.peers.peer_api_key = flags.peer_key.read(flags.http.api_key);
  // Only these ask others: a front, a server whose kernels are compiled elsewhere, and ncu the process that it
  // profiles.
  if (flags.role != EvaluatorRole::kFront && flags.peers.compile_servers.empty() && !flags.evaluator.profile)
    cut_off(flags.evaluator.sandbox);
  SignalWaiter signals;
  std::optional<EndsAtSignal> starting(std::in_place, "evaluator");
  // Each evaluation holds a server thread while it runs or waits, so the queue is the evaluator's own.
  flags.http.worker_threads = flags.evaluator.workers + 2;
  flags.http.max_queue = static_cast<size_t>(flags.evaluator.max_queue);
  if (flags.role == EvaluatorRole::kFront) {
    evaluate::FrontServer server(flags.peers, flags.http);
    serve_until_signal(signals, starting, server, {});
    return;
  }
  if (flags.role == EvaluatorRole::kCompile) {
    evaluate::CompileServer server(flags.evaluator, flags.http);
    serve_until_signal(signals, starting, server, server.refusals());
    return;
  }
  check_can_listen(flags.http);
  choose_gpus(flags.evaluator);
  std::optional<router::Router> compile_servers;
  evaluate::LoweringPool::Elsewhere elsewhere;
  if (!flags.peers.compile_servers.empty()) {
    compile_servers.emplace(evaluate::router_of(flags.peers.compile_servers, flags.peers));
    elsewhere = evaluate::compile_at(*compile_servers);
  }
  evaluate::Evaluator evaluator(flags.evaluator, std::move(elsewhere));
  evaluate::EvaluatorServer server(evaluator, flags.http, compile_servers ? &*compile_servers : nullptr);
  serve_until_signal(signals, starting, server, evaluator.refusals());
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  auto* command = app.add_subcommand("evaluate", "judges one candidate kernel against its PyTorch problem");
  auto flags = std::make_shared<EvaluateFlags>();
  add_flags(*command, *flags);
  add_flags(*command, flags->evaluator, {"workers", "max_queue"});
  // The mode is the evaluator's, and --reproducible says what fresh_seeds would.
  add_flags(*command, static_cast<EvaluationOptions&>(flags->request), {"mode", "fresh_seeds"});
  command->footer(
      "example: tritonforge evaluate --problem problems/level1/1_relu.py --candidate relu_triton.py\n"
      "ends with 0 where the candidate passes, 1 where it fails or cheats, 2 where the problem itself is at fault");
  command->callback([flags] {
    EvaluateFlags& given = *flags;
    given.request.problem_source = read_source(given.problem);
    given.request.candidate = read_source(given.candidate);
    given.request.fresh_seeds = !given.reproducible;
    choose_gpus(given.evaluator);
    evaluate::Evaluator evaluator(given.evaluator);
    const Verdict verdict = evaluator.evaluate(given.request);
    if (given.json) {
      fmt::print("{}\n", to_json(verdict).dump(2));
    } else {
      print_text(verdict);
    }
    if (verdict.fault == Fault::kProblemError) throw CLI::RuntimeError(2);
    if (!verdict.correct || verdict.cheated()) throw CLI::RuntimeError(1);
  });
}

void add_serve_evaluator_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("evaluator", "judges candidates over HTTP");
  auto flags = std::make_shared<EvaluatorFlags>();
  add_flags(*command, *flags);
  command->footer("example: tritonforge serve evaluator --port 18188 --mode plan --workers 2");
  command->callback([flags] { serve_evaluator(*flags); });
}

}  // namespace tritonforge::cli
