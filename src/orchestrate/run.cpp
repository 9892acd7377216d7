#include "orchestrate/run.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <thread>

#include "base/log.h"
#include "base/progress.h"
#include "orchestrate/preflight.h"
#include "orchestrate/stages.h"
#include "orchestrate/terminal_view.h"

namespace tritonforge::orchestrate {
namespace {

// Redraws the terminal and writes status.json while the stages work in the main thread.
class StatusThread {
 public:
  StatusThread(RunContext& run, TerminalView& view) : run_(run), view_(view), thread_([this] { loop(); }) {}
  ~StatusThread() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    view_.finish();
    run_.record.write_status(run_.supervisor.status(), run_.config.name);
  }
  void line(const std::string& text) {
    std::lock_guard lock(mutex_);
    view_.line(text);
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    size_t shown = 0;
    while (!stop_) {
      const auto roles = run_.supervisor.status();
      for (const auto& step : run_.record.steps_since(shown)) view_.line(format_step(step));
      view_.update(roles, run_.record.progress());
      run_.record.write_status(roles, run_.config.name);
      wake_.wait_for(lock, std::chrono::milliseconds(500));
    }
    for (const auto& step : run_.record.steps_since(shown)) view_.line(format_step(step));
  }
  RunContext& run_;
  TerminalView& view_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

// The newest model that a finished stage left behind: what --resume goes on with.
fs::path current_model(const RecipeConfig& config, const RunRecord& record) {
  for (const char* stage : {"rl", "sft"}) {
    if (record.stage_done(stage)) return record.folder() / "models" / stage;
  }
  return resolve_path(config.model.path);
}

void run_stages(RunContext& run, StatusThread& status) {
  const auto& config = run.config;
  const auto stage = [&](const std::string& name, const std::function<void()>& work) {
    if (run.record.stage_done(name)) return;
    const auto start = Clock::now();
    work();
    run.record.finish_stage(name, seconds_since(start));
  };
  const auto measure = [&](const std::string& weights) {
    const auto& measured = config.bench.models;
    if (!config.has_stage("bench") || std::find(measured.begin(), measured.end(), weights) == measured.end()) return;
    stage("bench-" + weights, [&] {
      const auto rows = run_bench(run, weights);
      run.record.add_rows(rows);
      status.line(format_table(rows));
    });
  };
  const auto install = [&](const std::string& name, int64_t version) {
    run.engines.install({run.record.folder() / "models" / name, version, {}});
  };
  if (config.has_stage("data")) stage("data", [&] { verify_pairs(run); });
  if (!run.record.stage_done("sft") && !run.record.stage_done("rl")) measure("base");
  if (config.has_stage("sft")) {
    stage("sft", [&] { run_sft(run); });
    if (config.generates() && !run.record.stage_done("rl")) {
      install("sft", 1);
      measure("sft");
    }
  }
  if (config.has_stage("rl")) {
    stage("rl", [&] {
      const fs::path start = current_model(config, run.record);
      run.start_trainer("rl", config.rl.train, start, config.rl.steps);
      run_rl(run);
      run.stop_trainer();
    });
    install("rl", 1 + config.rl.steps);
    measure("rl");
  }
}

}  // namespace

void print_plan(const RecipeConfig& config) {
  check_plan(config);
  fmt::print("run {} (seed {}): {}\n", config.name, config.seed, fmt::join(config.stages, " -> "));
  const auto role = [](const std::string& name, const std::string& device, const std::string& detail) {
    fmt::print("  {:<10} {:<10} {}\n", name, device, detail);
  };
  const std::string model = config.model.path + " " + config.model.dtype;
  if (config.generates()) {
    role("router", "cpu", "least-loaded");
    for (const auto& url : config.engine.external) role("engine", "external", url);
    for (int64_t i = 0; config.engine.external.empty() && i < config.engine.count; ++i)
      role(fmt::format("engine-{}", i), config.model.device, model);
    role("buffer", "cpu",
         fmt::format("SQLite in the run's folder, {} trajectories at once", config.rollout.buffer.concurrency));
  }
  if (config.evaluates()) {
    role("evaluator", config.evaluator.device,
         fmt::format("mode {}, {} at once{}", name_of(config.evaluator.mode), config.evaluator.workers,
                     config.share_device ? ", measures while engine and trainer wait" : ""));
  }
  if (config.has_stage("sft") || config.has_stage("rl")) role("trainer", config.model.device, model);
  if (config.dashboard_port > 0)
    role("dashboard", "cpu", fmt::format("http://127.0.0.1:{} or the next free port", config.dashboard_port));
}

void run_recipe(const RecipeConfig& config, const RunOptions& options) {
  const fs::path folder = options.output.empty() ? fs::path("runs") / fmt::format("{}-seed{}", config.name, config.seed)
                                                 : options.output;
  check_plan(config);
  SignalWaiter signals;
  RunRecord record(fs::absolute(folder), options.resume);
  write_file_atomic(record.folder() / "recipe.yaml", dump_config(config));
  RunContext run(config, record);
  TerminalView view;
  view.line(
      fmt::format("TritonForge run '{}', seed {}: {}", config.name, config.seed, fmt::join(config.stages, " -> ")));
  view.line(fmt::format("folder {}{}", record.folder().string(),
                        run.dashboard_url.empty() ? "" : "   page " + run.dashboard_url));

  // The stages run in their own thread, so that this one can answer Ctrl-C at any moment by taking the roles down.
  std::exception_ptr failure;
  std::atomic<bool> finished{false}, interrupted{false};
  const auto start = Clock::now();
  {
    StatusThread status(run, view);
    std::thread work([&] {
      try {
        run.record.set_progress("starting", 0, 0);
        run.start_services(current_model(config, record));
        run_stages(run, status);
      } catch (...) {
        failure = std::current_exception();
      }
      finished = true;
    });
    while (!finished) {
      if (signals.wait(Deadline::after(0.2))) {
        interrupted = true;
        run.interrupt();
        break;
      }
    }
    work.join();
  }
  run.supervisor.stop_all();
  record.write_status({}, config.name);
  if (interrupted && failure) {
    fail(ErrorKind::kUnavailable, "stopped by a signal; nothing finished is lost: go on with --resume (folder {})",
         record.folder().string());
  }
  if (failure) std::rethrow_exception(failure);
  record.write_result(config.seed);
  if (options.json) fmt::print("{}", read_file(record.folder() / "result.json"));
  else
    fmt::print("\n{}\n{} in all; result {}\n", format_table(record.rows()), format_duration(seconds_since(start)),
               (record.folder() / "result.json").string());
}

}  // namespace tritonforge::orchestrate
