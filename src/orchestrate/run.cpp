#include "orchestrate/run.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "base/log.h"
#include "base/log_diverted.h"
#include "base/process.h"
#include "base/progress.h"
#include "orchestrate/origin.h"
#include "orchestrate/preflight.h"
#include "orchestrate/ray_launcher.h"
#include "orchestrate/ssh_launcher.h"
#include "orchestrate/stages.h"
#include "orchestrate/terminal_view.h"

namespace tritonforge::orchestrate {
namespace {

// Redraws the terminal and writes status.json while the stages work in the main thread.
class StatusThread {
 public:
  StatusThread(RunContext& run, TerminalView& view) : run_(run), view_(view) {
    if (view.keeps_table()) diverted_.emplace([this](std::string line) { logged(std::move(line)); });
    thread_ = std::thread([this] { loop(); });
  }
  ~StatusThread() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    diverted_.reset();
    show_logged();
    view_.finish();
    write_status(run_.supervisor.status());
  }
  void line(const std::string& text) {
    std::lock_guard lock(mutex_);
    view_.line(text);
  }
  void table(const std::vector<BenchRow>& rows) {  // on a terminal it stays in view by itself
    std::lock_guard lock(mutex_);
    if (!view_.keeps_table()) view_.line(format_table(rows));
  }

 private:
  // A disk that takes no status is no reason to end the run: the stages say so where it matters.
  void write_status(const std::vector<RoleStatus>& roles) {
    try {
      run_.record.write_status(roles, run_.config.name);
      said_ = false;
    } catch (const std::exception& error) {
      if (!std::exchange(said_, true)) log::warn("{}", error.what());
    }
  }
  // What may wait for a disk is done without mutex_, for which others wait: those of a signal among them.
  void loop() {
    for (bool stop = false; !stop;) {
      const auto roles = run_.supervisor.status();
      const auto steps = run_.record.take_new_steps();
      const auto progress = run_.record.progress();
      const auto rows = run_.record.rows();
      {
        std::lock_guard lock(mutex_);
        show_logged();
        show(steps);
        view_.update(roles, progress, rows);
      }
      write_status(roles);
      std::unique_lock lock(mutex_);
      if (!stop_) wake_.wait_for(lock, std::chrono::milliseconds(500));
      stop = stop_;
    }
    show(run_.record.take_new_steps());
  }
  void show(const std::vector<Json>& steps) {
    for (const Json& step : steps) {
      if (is_shown(step, run_.config.sft.steps)) view_.line(format_step(step));
    }
  }
  // From any thread, one that has mutex_ among them.
  void logged(std::string line) {
    {
      std::lock_guard lock(logged_mutex_);
      logged_.push_back(std::move(line));
    }
    wake_.notify_all();
  }
  void show_logged() {
    std::vector<std::string> lines;
    {
      std::lock_guard lock(logged_mutex_);
      lines.swap(logged_);
    }
    for (const std::string& line : lines) view_.line(line);
  }
  RunContext& run_;
  TerminalView& view_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false, said_ = false;
  std::mutex logged_mutex_;
  std::vector<std::string> logged_;
  std::optional<log::Diverted> diverted_;
  std::thread thread_;
};

// The newest model that a finished stage left behind: what --resume goes on with.
fs::path current_model(const RecipeConfig& config, const RunRecord& record) {
  for (const char* stage : {"rl", "sft"}) {
    if (record.stage_done(stage)) return record.folder() / "models" / stage;
  }
  return resolve_path(config.model.path);
}

// What is left of the recipe's stages, in their order. The base model is measured before anything is trained.
std::vector<std::string> stages_left(const RecipeConfig& config, const RunRecord& record) {
  const auto& measured = config.bench.models;
  std::vector<std::string> stages;
  const auto add = [&](const std::string& name) {
    if (!record.stage_done(name)) stages.push_back(name);
  };
  const auto bench = [&](const std::string& weights) {
    const bool wanted = std::find(measured.begin(), measured.end(), weights) != measured.end();
    if (config.has_stage("bench") && wanted) add("bench-" + weights);
  };
  const bool sft_done = record.stage_done("sft"), rl_done = record.stage_done("rl");
  if (config.has_stage("data")) add("data");
  if (!sft_done && !rl_done) bench("base");
  if (config.has_stage("sft")) add("sft");
  if (config.has_stage("sft") && !rl_done) bench("sft");
  if (config.has_stage("rl")) add("rl");
  if (config.has_stage("rl")) bench("rl");
  return stages;
}

RecipeConfig with_stages_left(RecipeConfig config, const RunRecord& record) {
  const auto left = stages_left(config, record);
  std::erase_if(config.stages, [&](const std::string& stage) {
    return std::ranges::none_of(left, [&](const std::string& one) { return one.starts_with(stage); });
  });
  return config;
}

void train_rl(RunContext& run) {
  run.start_trainer("rl", run.config.rl.train, current_model(run.config, run.record), run.config.rl.steps);
  run_rl(run);
  run.stop_trainer();
}

BenchEnd measure(RunContext& run, const std::string& weights) {
  if (run.config.model.is_chat()) return run_bench(run, weights);
  const int64_t version = weights_version(run.config, weights);
  if (weights == "base") run.engines.require(version);
  else run.engines.install(exported_weights(run.record.folder() / "models" / weights, version));
  return run_bench(run, weights);
}

// A stop may come between a stage's end and its commits: what is left of them is done by the run that goes on.
void commit_leases(RunContext& run) {
  for (const std::string& lease : run.record.leases_to_commit()) run.buffer.commit(lease, /*step=*/0);
  run.record.leases_are_committed();
}

void run_stages(RunContext& run, StatusThread& status) {
  commit_leases(run);
  const auto left = stages_left(run.config, run.record);
  run.record.set_plan(left);
  for (const std::string& stage : left) {
    const auto start = Clock::now();
    BenchEnd measured;
    if (stage == "data") verify_pairs(run);
    else if (stage == "sft") run_sft(run);
    else if (stage == "rl") train_rl(run);
    else measured = measure(run, stage.substr(std::string_view("bench-").size()));
    run.record.finish_stage(stage, seconds_since(start), measured.rows, measured.leases);
    commit_leases(run);
    const auto next = std::span(left).subspan(static_cast<size_t>(&stage - left.data()) + 1);
    if (!measured.rows.empty() && !next.empty()) status.table(measured.rows);  // behind the last comes the result
    status.line(fmt::format("{} done in {}{}{}", stage, format_duration(seconds_since(start)),
                            next.empty() ? "" : "; next: ", fmt::join(next, ", ")));
  }
}

std::map<std::string, int64_t> steps_of_stages(const RecipeConfig& config) {
  return {{"sft", config.sft.steps}, {"rl", config.rl.steps}};
}

// recipe.yaml is what the run in the folder was started with; where it goes on with another one that decides nothing
// else, the old one is kept beside.
void keep_recipe(const RecipeConfig& config, const RunRecord& record) {
  const fs::path& folder = record.folder();
  const fs::path file = folder / "recipe.yaml";
  const std::string text = dump_config(config);
  if (fs::exists(file)) {
    const std::string old = read_file(file);
    if (old == text) return;
    const auto before = load_config<RecipeConfig>(parse_yaml(old, file.string()), file.string());
    auto changes = deciding_changes(before, config, record.begun_stages());
    for (const auto& [stage, steps] : steps_of_stages(config)) {
      if (const int64_t trained = record.last_step(stage); trained > steps)
        changes.push_back(fmt::format("{}.steps: now {}, and it has trained {}", stage, steps, trained));
    }
    if (!changes.empty()) {
      fail(ErrorKind::kUsage,
           "--resume: {} holds another run than this recipe's ({}); go on without these changes, or begin another run: "
           "without --resume, in another folder (--output)",
           folder.string(), fmt::join(changes, "; "));
    }
    int number = 1;
    while (fs::exists(folder / fmt::format("recipe.{}.yaml", number))) ++number;
    write_file_atomic(folder / fmt::format("recipe.{}.yaml", number), old);
  }
  write_file_atomic(file, text);
}

void print_result(const RunRecord& record, bool json, const std::string& last_line) {
  const fs::path result = record.folder() / "result.json";
  if (json) print_text(stdout, read_file(result));
  else
    print_text(stdout, fmt::format("\n{}\n{}; result {}\n", format_table(record.rows()), last_line, result.string()));
}

// A stage that is to have more steps than it was done with goes on after them.
void open_longer_stages(const RecipeConfig& config, RunRecord& record) {
  for (const auto& [stage, steps] : steps_of_stages(config))
    if (record.stage_done(stage) && record.last_step(stage) < steps) record.reopen(stage);
}

// Its result may be missing where the run ended between its last stage and that.
void show_finished(const RecipeConfig& config, RunRecord& record, bool json) {
  if (!fs::exists(record.folder() / "result.json")) record.write_result(config.seed);
  print_result(record, json, "this run is finished, and nothing was started");
}

// Ctrl-C at any moment: takes the roles down in their order, and at once where it is typed again.
class Interruption {
 public:
  Interruption(Supervisor& supervisor, StatusThread& status) : supervisor_(supervisor), status_(status) {}
  ~Interruption() {
    if (stopper_.joinable()) stopper_.join();
  }
  void signal(int number) {
    if (stopper_.joinable()) {
      status_.line("ending every role at once; what was not saved is done again after --resume");
      supervisor_.kill_all();
      return;
    }
    number_ = number;
    const auto is_trainer = [](const RoleStatus& role) { return role.name == "trainer"; };
    status_.line(fmt::format("stopping: the turns under way end{} ({:.0f} s at most); once more to end at once",
                             std::ranges::any_of(supervisor_.status(), is_trainer) ? ", then the trainer saves" : "",
                             supervisor_.longest_grace_s()));
    stopper_ = std::thread([this] {
      supervisor_.stop_all();
      done_ = true;
    });
  }
  bool under_way() const { return stopper_.joinable() && !done_; }
  int signal_number() const { return number_; }  // of the first; 0: none came

 private:
  Supervisor& supervisor_;
  StatusThread& status_;
  int number_ = 0;
  std::atomic<bool> done_{false};
  std::thread stopper_;
};

std::string reason_of(const std::exception_ptr& failure, int signal) {
  if (!failure) return "";
  if (signal != 0) return ::strsignal(signal);
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// What to do next goes with every failure of a run that has a folder. One that refuses what was asked says it itself.
[[noreturn]] void fail_with_advice(const std::exception_ptr& failure, bool begun, const fs::path& folder) {
  if (!holds_run(folder)) std::rethrow_exception(failure);
  try {
    std::rethrow_exception(failure);
  } catch (const StoppedBySignal&) {
    throw;
  } catch (const Error& error) {
    const std::set<ErrorKind> of_the_machine{ErrorKind::kUnavailable, ErrorKind::kTimeout, ErrorKind::kMachine};
    if (!begun && !of_the_machine.contains(error.kind())) throw;
    fail(error.kind(), "{}; nothing finished is lost: mend the cause, then go on with --resume (folder {})",
         error.what(), folder.string());
  } catch (const std::exception& error) {
    if (!begun) throw;
    fail(ErrorKind::kInternal, "{}; nothing finished is lost: go on with --resume (folder {})", error.what(),
         folder.string());
  }
}

}  // namespace

namespace {

std::unique_ptr<Launcher> make_launcher(const RecipeConfig& config, const RunOptions& options, const fs::path& folder) {
  const Layout layout = config.layout();
  std::vector<Place> places;
  std::set<std::string> groups;
  const auto use = [&](const std::string& group, const std::vector<Place>& its) {
    groups.insert(group);
    places.insert(places.end(), its.begin(), its.end());
  };
  if (config.trains()) use("actor", layout.actor);
  if (config.serves()) use("rollout", layout.engines);
  if (config.evaluates()) use("eval", {layout.eval});
  const auto away = std::ranges::find_if(places, [](const Place& place) { return place.host != kHead; });
  std::vector<fs::path> shared{fs::absolute(folder)};
  if (!config.model.is_chat()) shared.push_back(fs::absolute(resolve_path(config.model.path)));
  switch (options.launcher) {
    case LauncherKind::kLocal: break;
    case LauncherKind::kSsh:
      return std::make_unique<SshLauncher>(layout, resolve_path(config.placement.ssh_config), shared);
    case LauncherKind::kRay:
      return std::make_unique<RayLauncher>(layout, RayOptions{options.ray_address, options.ray_runtime_env, groups},
                                           fs::absolute(folder), shared);
  }
  if (away != places.end())
    fail(ErrorKind::kUsage, "'placement' has {} among its hosts: --launcher ssh or ray starts roles there", away->host);
  return std::make_unique<Launcher>(layout);
}

// Hosts may be brought gigabytes that they lack: a signal ends that, too.
void prepare_hosts(Launcher& launcher, SignalWaiter& signals, const fs::path& folder) {
  std::stop_source stop;
  std::atomic<int> number{0};
  // Not the other way round: what is started here lives as long as the thread that started it.
  std::jthread listener([&](const std::stop_token& done) {
    while (!done.stop_requested() && number == 0) number = signals.wait(Deadline::after(0.02));
    if (number != 0) stop.request_stop();
  });
  std::exception_ptr failure;
  try {
    launcher.prepare(stop.get_token());
  } catch (...) {
    failure = std::current_exception();
  }
  listener.request_stop();
  listener.join();
  if (number == 0 && failure) std::rethrow_exception(failure);
  if (number == 0) return;
  throw StoppedBySignal(number, fmt::format("stopped by {} while the hosts were prepared; nothing was started: go on "
                                            "with --resume (folder {})",
                                            ::strsignal(number), folder.string()));
}

// `begun`: set once what was asked is known to be possible.
void run_in(const fs::path& folder, const RecipeConfig& config, const RunOptions& options,
            std::unique_ptr<Launcher> launcher, bool& begun) {
  SignalWaiter signals;
  RunRecord record(folder, options.resume);
  keep_recipe(config, record);
  open_longer_stages(config, record);
  if (options.resume) check_inputs(with_stages_left(config, record), record.folder());
  Origin origin(config, record.folder());
  for (const fs::path& swept : SharedFolder::sweep()) log::info("removed {}, which a killed run left", swept.string());
  if (options.resume && stages_left(config, record).empty()) return show_finished(config, record, options.json);
  begun = true;
  prepare_hosts(*launcher, signals, record.folder());
  RunContext run(config, record, std::move(launcher));
  TerminalView view;
  view.line(
      fmt::format("TritonForge run '{}', seed {}: {}", config.name, config.seed, fmt::join(config.stages, " -> ")));
  view.line(fmt::format("started {}, folder {}{}", format_time(record.started()), record.folder().string(),
                        run.dashboard_url.empty() ? "" : "   page " + run.dashboard_url));

  // The stages run in their own thread, so that this one can answer signals.
  std::exception_ptr failure;
  std::atomic<bool> finished{false};
  int signal = 0;
  const auto start = Clock::now();
  Trackers trackers(config.tracking, record.folder());
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
      if (const int number = signals.wait(Deadline::after(0.2))) interruption.signal(number);
    }
    work.join();
    signal = interruption.signal_number();
    record.set_end(!failure ? "finished" : signal != 0 ? "stopped" : "failed", reason_of(failure, signal));
  }
  for (const std::string& line : trackers.stop()) log::warn("{}", line);
  if (failure && signal != 0) {
    throw StoppedBySignal(signal,
                          fmt::format("stopped by {}; nothing finished is lost: go on with --resume (folder {})",
                                      ::strsignal(signal), record.folder().string()));
  }
  if (failure) std::rethrow_exception(failure);
  print_result(record, options.json,
               format_duration(seconds_since(start)) + (options.resume ? " since --resume" : " in all"));
}

}  // namespace

void run_recipe(const RecipeConfig& given, const RunOptions& options) {
  RecipeConfig config = given;
  if (options.launcher == LauncherKind::kRay && config.placement.hosts.empty())
    config.placement.hosts = ray_nodes(ray_address(options.ray_address));
  const fs::path folder = fs::absolute(
      options.output.empty() ? fs::path("runs") / fmt::format("{}-seed{}", config.name, config.seed) : options.output);
  check_plan(config);
  for (const std::string& doubt : doubts(config)) log::warn("{}", doubt);
  warn_of_problems(config);
  std::unique_ptr<Launcher> launcher = make_launcher(config, options, folder);
  bool begun = false;
  try {
    run_in(folder, config, options, std::move(launcher), begun);
  } catch (...) {
    fail_with_advice(std::current_exception(), begun, folder);
  }
}

}  // namespace tritonforge::orchestrate
