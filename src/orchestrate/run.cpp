#include "orchestrate/run.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <thread>

#include "base/log.h"
#include "base/progress.h"
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
    write_status(run_.supervisor.status());
  }
  void line(const std::string& text) {
    std::lock_guard lock(mutex_);
    view_.line(text);
  }

 private:
  // A disk that takes no status is no reason to end the run: the stages say so where it matters.
  void write_status(const std::vector<RoleStatus>& roles) {
    try {
      run_.record.write_status(roles, run_.config.name);
      said_ = false;
    } catch (const Error& error) {
      if (!std::exchange(said_, true)) log::warn("{}", error.what());
    }
  }
  void loop() {
    std::unique_lock lock(mutex_);
    size_t shown = 0;
    while (!stop_) {
      const auto roles = run_.supervisor.status();
      for (const auto& step : run_.record.steps_since(shown)) view_.line(format_step(step));
      view_.update(roles, run_.record.progress());
      write_status(roles);
      wake_.wait_for(lock, std::chrono::milliseconds(500));
    }
    for (const auto& step : run_.record.steps_since(shown)) view_.line(format_step(step));
  }
  RunContext& run_;
  TerminalView& view_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false, said_ = false;
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
  const auto stage = [&](const std::string& name, const std::function<std::vector<BenchRow>()>& work) {
    if (run.record.stage_done(name)) return;
    const auto start = Clock::now();
    const auto rows = work();
    run.record.finish_stage(name, seconds_since(start), rows);
    if (!rows.empty()) status.line(format_table(rows));
  };
  // The engines serve the base model as version 0, what SFT made as 1, and what RL made as 1 + its steps.
  const auto measure = [&](const std::string& weights, int64_t version) {
    const auto& measured = config.bench.models;
    if (!config.has_stage("bench") || std::find(measured.begin(), measured.end(), weights) == measured.end()) return;
    stage("bench-" + weights, [&] {
      if (version == 0) run.engines.require(0);
      else run.engines.install({run.record.folder() / "models" / weights, version, {}});
      return run_bench(run, weights);
    });
  };
  const std::vector<BenchRow> no_rows;
  if (config.has_stage("data")) stage("data", [&] { return verify_pairs(run), no_rows; });
  if (!run.record.stage_done("sft") && !run.record.stage_done("rl")) measure("base", 0);
  if (config.has_stage("sft")) {
    stage("sft", [&] { return run_sft(run), no_rows; });
    if (!run.record.stage_done("rl")) measure("sft", 1);
  }
  if (config.has_stage("rl")) {
    stage("rl", [&] {
      run.start_trainer("rl", config.rl.train, current_model(config, run.record), config.rl.steps);
      run_rl(run);
      run.stop_trainer();
      return no_rows;
    });
    measure("rl", 1 + config.rl.steps);
  }
}

}  // namespace

void print_plan(const RecipeConfig& config) {
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
         fmt::format("mode {}, {} at once{}", config.evaluator.mode, config.evaluator.workers,
                     config.share_device ? ", measures while engine and trainer wait" : ""));
  }
  if (config.has_stage("sft") || config.has_stage("rl")) role("trainer", config.model.device, model);
  if (config.dashboard_port > 0)
    role("dashboard", "cpu", fmt::format("http://127.0.0.1:{} or the next free port", config.dashboard_port));
}

namespace {

// recipe.yaml is what the run in the folder was started with; where it goes on with another one that decides nothing
// else, the old one is kept beside.
void keep_recipe(const RecipeConfig& config, const fs::path& folder) {
  const fs::path file = folder / "recipe.yaml";
  const std::string text = dump_config(config);
  if (fs::exists(file)) {
    const std::string old = read_file(file);
    if (old == text) return;
    const auto before = load_config<RecipeConfig>(parse_yaml(old, file.string()), file.string());
    const auto changes = deciding_changes(before, config);
    if (!changes.empty()) {
      fail(ErrorKind::kUsage,
           "--resume: {} holds another run than this recipe's ({}); go on without these changes, or "
           "name another folder with --output",
           folder.string(), fmt::join(changes, "; "));
    }
    int number = 1;
    while (fs::exists(folder / fmt::format("recipe.{}.yaml", number))) ++number;
    write_file_atomic(folder / fmt::format("recipe.{}.yaml", number), old);
  }
  write_file_atomic(file, text);
}

// Ctrl-C at any moment: takes the roles down in their order, and at once where it is typed again.
class Interruption {
 public:
  Interruption(Supervisor& supervisor, StatusThread& status) : supervisor_(supervisor), status_(status) {}
  ~Interruption() {
    if (stopper_.joinable()) stopper_.join();
  }
  void signal() {
    if (stopper_.joinable()) {
      status_.line("ending every role at once; what was not saved is done again after --resume");
      supervisor_.kill_all();
      return;
    }
    status_.line(
        fmt::format("stopping: the turns under way end, then the trainer saves ({:.0f} s at most); once more "
                    "to end at once",
                    supervisor_.longest_grace_s()));
    stopper_ = std::thread([this] {
      supervisor_.stop_all();
      done_ = true;
    });
  }
  bool under_way() const { return stopper_.joinable() && !done_; }
  bool was_asked_for() const { return stopper_.joinable(); }

 private:
  Supervisor& supervisor_;
  StatusThread& status_;
  std::atomic<bool> done_{false};
  std::thread stopper_;
};

// What to do next goes with every failure of a run that has a folder.
[[noreturn]] void fail_with_advice(const std::exception_ptr& failure, bool interrupted, const fs::path& folder) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (interrupted) {
      fail(ErrorKind::kUnavailable, "stopped by a signal; nothing finished is lost: go on with --resume (folder {})",
           folder.string());
    }
    fail(error.kind(), "{}; nothing finished is lost: mend the cause, then go on with --resume (folder {})",
         error.what(), folder.string());
  } catch (const std::exception& error) {
    fail(ErrorKind::kInternal, "{}; nothing finished is lost: go on with --resume (folder {})", error.what(),
         folder.string());
  }
}

}  // namespace

void run_recipe(const RecipeConfig& config, const RunOptions& options) {
  const fs::path folder = options.output.empty() ? fs::path("runs") / fmt::format("{}-seed{}", config.name, config.seed)
                                                 : options.output;
  SignalWaiter signals;
  RunRecord record(fs::absolute(folder), options.resume);
  keep_recipe(config, record.folder());
  for (const fs::path& swept : SharedFolder::sweep()) log::info("removed {}, which a killed run left", swept.string());
  RunContext run(config, record);
  TerminalView view;
  view.line(
      fmt::format("TritonForge run '{}', seed {}: {}", config.name, config.seed, fmt::join(config.stages, " -> ")));
  view.line(fmt::format("folder {}{}", record.folder().string(),
                        run.dashboard_url.empty() ? "" : "   page " + run.dashboard_url));

  // The stages run in their own thread, so that this one can answer signals.
  std::exception_ptr failure;
  std::atomic<bool> finished{false};
  bool interrupted = false;
  const auto start = Clock::now();
  {
    StatusThread status(run, view);
    Interruption interruption(run.supervisor, status);
    std::thread work([&] {
      try {
        run.record.set_progress("starting", 0, 0);
        run.start_services(current_model(config, record));
        run_stages(run, status);
        record.write_result(config.seed);
      } catch (...) {
        failure = std::current_exception();
      }
      run.supervisor.stop_all();
      finished = true;
    });
    while (!finished || interruption.under_way()) {
      if (signals.wait(Deadline::after(0.2))) interruption.signal();
    }
    work.join();
    interrupted = interruption.was_asked_for();
  }
  if (failure) fail_with_advice(failure, interrupted, record.folder());
  if (options.json) print_text(stdout, read_file(record.folder() / "result.json"));
  else
    print_text(stdout, fmt::format("\n{}\n{} in all; result {}\n", format_table(record.rows()),
                                   format_duration(seconds_since(start)), (record.folder() / "result.json").string()));
}

}  // namespace tritonforge::orchestrate
