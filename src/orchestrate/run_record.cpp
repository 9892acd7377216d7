#include "orchestrate/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_lock.h"
#include "base/line_tail.h"
#include "base/nvml.h"
#include "net/retry.h"

namespace tritonforge::orchestrate {
namespace {
constexpr double kLockPatience = 5;  // seconds in which the processes of a killed run are gone

std::string kind_of(const std::string& stage) { return stage.substr(0, stage.find('-')); }  // "bench" of "bench-sft"
struct NamedSpeed {
  const char *prefix, *title;  // of its fields in JSON, of its columns
  BenchSpeed BenchRow::* speed;
};
constexpr NamedSpeed kSpeeds[] = {{"", "eager", &BenchRow::eager},
                                  {"torch_compile_", "torch.compile", &BenchRow::torch_compile}};

}  // namespace

Json to_json(const BenchRow& row) {
  Json json = {{"name", row.stage},
               {"label", row.label},
               {"turns", row.turns},
               {"samples", row.samples},
               {"failed", row.failed},
               {"pass_at_1", row.pass_at_1},
               {"ci95", {row.ci_low, row.ci_high}},
               {"compile_rate", row.compile_rate}};
  if (row.single_turn_pass_at_k) json["single_turn_pass_at_k"] = *row.single_turn_pass_at_k;
  for (const auto& [prefix, title, of] : kSpeeds) {
    const BenchSpeed& speed = row.*of;
    if (speed.fast.empty()) continue;
    json[prefix + std::string("fast_p")] = speed.fast;
    json[prefix + std::string("geo_mean_speedup")] = speed.geo_mean;
    json[prefix + std::string("median_speedup")] = speed.median;
  }
  return json;
}

BenchRow bench_row_from_json(const Json& json) {
  const std::string where = "state.json";
  BenchRow row;
  row.stage = require<std::string>(json, "name", where);
  row.label = optional_field<std::string>(json, "label", row.stage, where);
  row.turns = require<int64_t>(json, "turns", where);
  row.samples = require<int64_t>(json, "samples", where);
  row.failed = optional_field<int64_t>(json, "failed", 0, where);
  row.compile_rate = require<double>(json, "compile_rate", where);
  if (json.contains("single_turn_pass_at_k"))
    row.single_turn_pass_at_k = require<double>(json, "single_turn_pass_at_k", where);
  row.pass_at_1 = require<double>(json, "pass_at_1", where);
  const auto interval = require<std::vector<double>>(json, "ci95", where);
  if (interval.size() != 2) fail(ErrorKind::kCorrupt, "{}: 'ci95' must have two numbers", where);
  row.ci_low = interval[0];
  row.ci_high = interval[1];
  for (const auto& [prefix, title, of] : kSpeeds) {
    const std::string before = prefix;
    row.*of = {optional_field<std::map<std::string, double>>(json, (before + "fast_p").c_str(), {}, where),
               optional_field<double>(json, (before + "geo_mean_speedup").c_str(), 0, where),
               optional_field<double>(json, (before + "median_speedup").c_str(), 0, where)};
  }
  return row;
}

namespace {

constexpr const char* kLockFile = ".lock";  // there from the run's first moment on

}  // namespace

bool holds_run(const fs::path& folder) { return fs::exists(folder / kLockFile); }

namespace {

// A folder's name that is mistyped, or follows from another seed, must not begin another run.
void require_run(const fs::path& folder) {
  if (holds_run(folder)) return;
  const auto runs = names_in(folder.parent_path(), holds_run);
  fail(ErrorKind::kNotFound, "--resume: there is no run in {}{}; without --resume one is started there",
       folder.string(), nearest_hint(folder.filename().string(), runs));
}

// Throws kConflict where another run has it.
Descriptor lock_of(const fs::path& folder, bool resume) {
  if (resume) require_run(folder);
  fs::create_directories(folder);
  const fs::path lock = folder / kLockFile;
  Descriptor held(::open(lock.c_str(), O_RDWR | O_CREAT, 0644));  // children inherit it
  if (held.get() < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", lock.string(), std::strerror(errno));
  const Deadline deadline = Deadline::after(kLockPatience);
  while (!lock_file(held.get(), LOCK_EX | LOCK_NB, folder)) {
    if (deadline.expired() || !net::pause(0.05))
      fail(ErrorKind::kConflict, "{} is in use by a run that is under way", folder.string());
  }
  return held;
}

}  // namespace

RunRecord::RunRecord(fs::path folder, bool resume)
    : folder_(std::move(folder)), lock_(lock_of(folder_, resume)), started_(unix_seconds()) {
  remove_unfinished(folder_, {".json", ".yaml"});  // the lock's holder alone writes such files
  const fs::path state = folder_ / "state.json";
  if (!fs::exists(state)) {
    save_state();
    return;
  }
  if (!resume) {
    fail(ErrorKind::kUsage, "{} holds a run already: go on with --resume, or name another folder with --output",
         folder_.string());
  }
  const Json json = parse_json(read_file(state), state.string());
  begun_ = optional_field<std::vector<std::string>>(json, "begun", {"data", "sft", "rl", "bench"}, state.string());
  done_ = require<std::vector<std::string>>(json, "done", state.string());
  started_ = optional_field<double>(json, "started", started_, state.string());
  wall_s_ = require<std::map<std::string, double>>(json, "wall_s", state.string());
  for (const auto& row : require<Json>(json, "rows", state.string())) rows_.push_back(bench_row_from_json(row));
  reopened_ = optional_field<std::map<std::string, int64_t>>(json, "reopened", {}, state.string());
  leases_to_commit_ = optional_field<std::vector<std::string>>(json, "leases_to_commit", {}, state.string());
  for (const std::string& line : LineTail(folder_ / "problems.jsonl").poll())
    problems_.insert(parse_json(line, (folder_ / "problems.jsonl").string()).value("id", ""));
  // A step whose line was cut off by a crash is written again.
  const std::string steps = (folder_ / "steps.jsonl").string();
  for (size_t number = 0; const std::string& line : LineTail(steps).poll()) {
    const Json step = parse_json(line, fmt::format("{}:{}", steps, ++number));
    last_step_[step.value("stage", "")] = step.value("step", int64_t{-1});
  }
  cut_transcripts();
  require_buffer();
}

// A step's transcripts are written before its line: those of a step that a kill left without one come again with it.
// They are the last ones, so that no other has to be parsed.
void RunRecord::cut_transcripts() const {
  const fs::path file = folder_ / "trajectories.jsonl";
  if (!fs::exists(file)) return;
  const std::string text = read_file(file);
  const std::string_view whole = std::string_view(text).substr(0, text.rfind('\n') + 1);
  std::string_view kept = whole;
  while (!kept.empty()) {
    const size_t begin = kept.substr(0, kept.size() - 1).rfind('\n') + 1;
    const Json line = parse_json(kept.substr(begin), file.string());
    if (line.value("step", int64_t{0}) <= last_step("rl")) break;
    kept = kept.substr(0, begin);
  }
  if (kept.size() < whole.size()) fs::resize_file(file, kept.size());
}

// The trainer's leases are names in it: a fresh one knows none of them, and would be asked to commit them for ever.
void RunRecord::require_buffer() const {
  const bool rl_goes_on = last_step("rl") > 0 && !stage_done("rl");
  if (!rl_goes_on || fs::exists(folder_ / "buffer.sqlite")) return;
  fail(ErrorKind::kNotFound,
       "--resume: {} is gone, and with it what RL was to train on: begin another run (--output), or without --resume "
       "after removing this folder",
       (folder_ / "buffer.sqlite").string());
}

void RunRecord::save_state() const {
  std::unique_lock lock(mutex_);
  Json rows = Json::array();
  for (const auto& row : rows_) rows.push_back(to_json(row));
  const Json state = {{"started", started_},  {"begun", begun_}, {"done", done_},
                      {"wall_s", wall_s_},    {"rows", rows},    {"leases_to_commit", leases_to_commit_},
                      {"reopened", reopened_}};
  lock.unlock();
  write_file_atomic(folder_ / "state.json", state.dump(1));
}

bool RunRecord::stage_done(const std::string& stage) const {
  std::lock_guard lock(mutex_);
  return std::find(done_.begin(), done_.end(), stage) != done_.end();
}

void RunRecord::begin_stage(const std::string& stage) {
  std::lock_guard writing(writing_);
  {
    std::lock_guard lock(mutex_);
    if (std::find(begun_.begin(), begun_.end(), stage) != begun_.end()) return;
    begun_.push_back(stage);
  }
  save_state();
}

std::vector<std::string> RunRecord::begun_stages() const {
  std::lock_guard lock(mutex_);
  return begun_;
}

void RunRecord::finish_stage(const std::string& stage, double wall_s, const std::vector<BenchRow>& rows,
                             const std::vector<std::string>& leases) {
  std::lock_guard writing(writing_);
  {
    std::lock_guard lock(mutex_);
    done_.push_back(stage);
    wall_s_[stage] += wall_s;
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    leases_to_commit_.insert(leases_to_commit_.end(), leases.begin(), leases.end());
  }
  save_state();
}

void RunRecord::reopen(const std::string& stage) {
  if (!fs::exists(folder_ / "checkpoints" / stage / "latest"))
    fail(ErrorKind::kNotFound, "--resume: {} has no checkpoint that more steps could go on from",
         (folder_ / "checkpoints" / stage).string());
  fs::remove(folder_ / "result.json");
  std::lock_guard writing(writing_);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(done_, [&](const std::string& done) { return done == stage || done == "bench-" + stage; });
    std::erase_if(rows_, [&](const BenchRow& row) { return row.stage == stage; });
    ++reopened_[stage];
  }
  save_state();
  require_buffer();
}

int64_t RunRecord::times_reopened(const std::string& stage) const {
  std::lock_guard lock(mutex_);
  const auto times = reopened_.find(stage);
  return times == reopened_.end() ? 0 : times->second;
}

std::vector<std::string> RunRecord::leases_to_commit() const {
  std::lock_guard lock(mutex_);
  return leases_to_commit_;
}

void RunRecord::leases_are_committed() {
  std::lock_guard writing(writing_);
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(leases_to_commit_, {}).empty()) return;
  }
  save_state();
}

int64_t RunRecord::first_step(const std::string& stage, int64_t next) const {
  return next > 1 && last_step(stage) < next - 1 ? next - 1 : next;
}

int64_t RunRecord::last_step(const std::string& stage) const {
  std::lock_guard lock(mutex_);
  const auto last = last_step_.find(stage);
  return last == last_step_.end() ? 0 : last->second;
}

std::vector<BenchRow> RunRecord::rows() const {
  std::lock_guard lock(mutex_);
  return rows_;
}

std::map<std::string, double> RunRecord::wall_s() const {
  std::lock_guard lock(mutex_);
  return wall_s_;
}

void RunRecord::add_sft_step(const StepResult& trained) { add_step("sft", trained.metrics.step, to_json(trained)); }

void RunRecord::add_rl_step(const RlStep& step) {
  const RolloutFigures& sum = step.rollout;
  const auto rate = [&](int64_t count) { return sum.per_trajectory(static_cast<double>(count)); };
  Json record = to_json(step.trained);
  record.update({{"reward_mean", sum.per_trajectory(sum.reward)},
                 {"pass_rate", rate(sum.passed)},
                 {"pass_rate_first_turn", rate(sum.passed_first_turn)},
                 {"compile_rate", rate(sum.compiled)},
                 {"turns_mean", rate(sum.turns)},
                 {"response_tokens", static_cast<double>(sum.response_tokens)},
                 {"trajectories", sum.trajectories},
                 {"failed", sum.failed},
                 {"dropped", step.dropped},
                 {"replayed", step.replayed},
                 {"generate_request_s", sum.generate_s},
                 {"evaluate_request_s", sum.evaluate_s},
                 {"collect_s", step.collect_s},
                 {"train_s", step.train_s},
                 {"sync_s", step.sync_s},
                 {"seconds", step.seconds}});
  if (!step.warning.empty()) record["warning"] = step.warning;
  const auto add_share = [&](const char* name, const std::optional<double>& share) {
    if (share) record[name] = *share;
  };
  add_share("idle_actor", step.idle.actor);
  add_share("idle_rollout", step.idle.rollout);
  add_share("idle_eval", step.idle.eval);
  add_step("rl", step.trained.metrics.step, std::move(record));
}

void RunRecord::add_step(const std::string& stage, int64_t number, Json step) {
  std::lock_guard writing(writing_);
  if (number <= last_step(stage)) return;
  step["stage"] = stage;
  step["time"] = unix_seconds();
  append_line_durable(folder_ / "steps.jsonl", step.dump());
  std::lock_guard lock(mutex_);
  last_step_[stage] = number;
  new_steps_.push_back(std::move(step));
}

std::vector<Json> RunRecord::take_new_steps() {
  std::lock_guard lock(mutex_);
  return std::exchange(new_steps_, {});
}

void RunRecord::add_transcripts(const std::vector<Trajectory>& transcripts, int64_t step) {
  std::string lines;
  for (const Trajectory& transcript : transcripts) {
    Json line = transcript_json(transcript);
    line["step"] = step;
    lines += (lines.empty() ? "" : "\n") + line.dump();
  }
  if (lines.empty()) return;
  std::lock_guard writing(writing_);
  append_line_durable(folder_ / "trajectories.jsonl", lines);
}

void RunRecord::add_problem(const std::string& id, const std::string& source) {
  std::lock_guard writing(writing_);
  if (problems_.insert(id).second)
    append_line_durable(folder_ / "problems.jsonl", Json{{"id", id}, {"source", source}}.dump());
}

void RunRecord::write_bench(const std::string& stage, const std::vector<std::vector<Trajectory>>& by_problem) {
  Json answers = Json::array();
  for (const auto& samples : by_problem) {
    for (const Trajectory& trajectory : samples) {
      Json turns = Json::array();
      for (const Turn& turn : trajectory.turns)
        turns.push_back({{"code", turn.code}, {"status", name_of(turn.status)}, {"verdict", to_json(turn.verdict)}});
      answers.push_back({{"problem_id", trajectory.problem_id}, {"turns", std::move(turns)}});
    }
  }
  write_file_atomic(folder_ / fmt::format("bench-{}.json", stage), answers.dump());
}

void RunRecord::set_plan(std::vector<std::string> stages) {
  std::lock_guard lock(mutex_);
  plan_ = std::move(stages);
}

void RunRecord::set_progress(const std::string& stage, int64_t done, int64_t total, const std::string& note) {
  std::lock_guard lock(mutex_);
  if (stage != progress_.stage) {
    stage_start_ = Clock::now();
    pace_ = Pace();
  }
  pace_.at(seconds_since(stage_start_), done);
  progress_.stage = stage;
  progress_.done = done;
  progress_.total = total;
  progress_.note = note;
}

std::vector<std::string> RunRecord::left() const {
  std::vector<std::string> left;
  for (const std::string& stage : plan_) {
    if (std::find(done_.begin(), done_.end(), stage) == done_.end()) left.push_back(stage);
  }
  return left;
}

// Seconds of the last stage done of this kind: "bench" of bench-base, bench-sft, bench-rl.
std::optional<double> RunRecord::took(const std::string& kind) const {
  const auto last = std::find_if(done_.rbegin(), done_.rend(),
                                 [&](const std::string& stage) { return kind_of(stage) == kind; });
  return last == done_.rend() ? std::nullopt : std::optional(wall_s_.at(*last));
}

RunRecord::Progress RunRecord::progress() const {
  std::lock_guard lock(mutex_);
  Progress progress = progress_;
  progress.elapsed_s = seconds_since(stage_start_);
  progress.eta_s = pace_.left(progress.elapsed_s, progress.total);
  progress.run_eta_s = progress.eta_s;
  const auto stages = left();
  for (size_t i = 1; i < stages.size(); ++i) {  // the first is under way
    const auto seconds = took(kind_of(stages[i]));
    progress.run_eta_s += seconds.value_or(0);
    progress.run_eta_is_least |= !seconds;
  }
  return progress;
}

double RunRecord::started() const {
  std::lock_guard lock(mutex_);
  return started_;
}

void RunRecord::write_status(const std::vector<RoleStatus>& roles, const std::string& run_name) {
  const Progress now = progress();
  Json list = Json::array(), gpus = Json::array();
  for (const GpuLoad& gpu : gpu_loads()) {
    gpus.push_back({{"index", gpus.size()},
                    {"name", gpu.name},
                    {"use", gpu.use},
                    {"memory_used_gib", gpu.memory_used_gib},
                    {"memory_total_gib", gpu.memory_total_gib}});
  }
  for (const auto& role : roles) {
    list.push_back({{"name", role.name},
                    {"state", name_of(role.state)},
                    {"detail", role.detail},
                    {"restarts", role.restarts},
                    {"pid", role.pids.empty() ? -1 : role.pids.front()},
                    {"pids", role.pids},
                    {"host", role.host},
                    {"url", role.url},
                    {"figures", role.figures}});
  }
  std::unique_lock lock(mutex_);
  const Json status = {{"run", run_name},
                       {"state", state_},
                       {"done", done_},
                       {"left", left()},
                       {"reason", reason_},
                       {"stage", now.stage},
                       {"eta_s", now.eta_s},
                       {"elapsed_s", now.elapsed_s},
                       {"run_eta_s", now.run_eta_s},
                       {"run_eta_is_least", now.run_eta_is_least},
                       {"started", started_},
                       {"roles", list},
                       {"gpus", gpus},
                       {"progress", {{"done", now.done}, {"total", now.total}, {"note", now.note}}},
                       {"pid", ::getpid()},
                       {"time", unix_seconds()}};
  lock.unlock();
  // What a role says last, in its log, may be any bytes.
  write_file_atomic(folder_ / "status.json", status.dump(1, ' ', false, Json::error_handler_t::replace));
}

void RunRecord::set_end(const std::string& state, const std::string& reason) {
  std::lock_guard lock(mutex_);
  state_ = state;
  reason_ = reason;
}

void RunRecord::write_result(int64_t seed) {
  Json stages = Json::array();
  for (const auto& row : rows()) stages.push_back(to_json(row));
  Json wall = {{"data", 0.0}, {"sft", 0.0}, {"rl", 0.0}, {"bench", 0.0}};
  for (const auto& [stage, seconds] : wall_s()) {
    wall[kind_of(stage)] = wall.value(kind_of(stage), 0.0) + seconds;
  }
  write_file_atomic(folder_ / "result.json", Json{{"stages", stages}, {"wall_s", wall}, {"seed", seed}}.dump(1) + "\n");
}

std::string format_table(const std::vector<BenchRow>& rows) {
  if (rows.empty()) return "";
  const auto any = [&](auto has) { return std::any_of(rows.begin(), rows.end(), has); };
  std::vector<NamedSpeed> timed;
  for (const NamedSpeed& named : kSpeeds) {
    if (any([&](const BenchRow& row) { return !(row.*named.speed).fast.empty(); })) timed.push_back(named);
  }
  const bool several = any([](const BenchRow& row) { return row.turns > 1; });
  size_t width = 8;
  for (const BenchRow& row : rows) width = std::max(width, row.label.size());
  std::string text = fmt::format("{:<{}} {:>11} {:>8} {:>7} {:>9} {:>8}  {:<16}{}", "model", width, "turns", "samples",
                                 "failed", "compiles", "pass@1", "95 % interval", several ? "  k single" : "");
  for (const NamedSpeed& named : timed) text += fmt::format("  {} fast_1  geomean   median", named.title);
  text += "\n";
  for (const auto& row : rows) {
    text += fmt::format("{:<{}} {:>11} {:>8} {:>7} {:>8.1f}% {:>7.1f}%  [{:5.1f}%, {:5.1f}%]", row.label, width,
                        row.turns == 1 ? "single" : fmt::format("multi ({})", row.turns), row.samples, row.failed,
                        100 * row.compile_rate, 100 * row.pass_at_1, 100 * row.ci_low, 100 * row.ci_high);
    if (several) {
      const auto& single = row.single_turn_pass_at_k;
      text += fmt::format("  {:>8}", single ? fmt::format("{:.1f}%", 100 * *single) : "-");
    }
    for (const NamedSpeed& named : timed) {
      const BenchSpeed& speed = row.*named.speed;
      const auto fast = speed.fast.find("1.0");
      text += fmt::format("  {:>{}.1f}%  {:6.2f}x  {:6.2f}x", fast == speed.fast.end() ? 0.0 : 100 * fast->second,
                          std::strlen(named.title) + 6, speed.geo_mean, speed.median);
    }
    text += "\n";
  }
  text += "failed: samples without a verdict through failures of ours; they are in no rate\n";
  if (several) {
    text += "k single: pass@k of k = turns single-turn samples, unbiased; turns help where pass@1 is above it ";
    text += "(-: fewer than k samples a problem)\n";
  }
  return text;
}

}  // namespace tritonforge::orchestrate
