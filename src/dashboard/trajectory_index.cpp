#include "dashboard/trajectory_index.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "base/log.h"

namespace tritonforge::dashboard {
namespace {

constexpr size_t kMostFlags = 32;  // bits of Entry::flags

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
std::string text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}
bool is_true(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// What is not shown is not kept while a line is parsed: most of one is text, code and token ids.
bool is_kept(int depth, Json::parse_event_t event, Json& parsed) {
  static const std::vector<std::string> kKept = {"id",       "problem_id", "step",    "reward", "turns",
                                                 "verdict",  "flags",      "name",    "cheat",  "correct",
                                                 "compiled", "speedup",    "cheated", "status"};
  if (depth > kMaxJsonDepth) return false;
  return event != Json::parse_event_t::key ||
         std::find(kKept.begin(), kKept.end(), parsed.get_ref<const std::string&>()) != kKept.end();
}

// Of its turns, the best: a cheat is worth less than what does not compile, since nothing is known of it.
Outcome outcome_of(const Json& turns) {
  bool compiled = false, cheated = false, failed = turns.empty();
  for (const Json& turn : turns) {
    const Json verdict = turn.is_object() ? turn.value("verdict", Json::object()) : Json::object();
    if (!verdict.is_object()) continue;
    const bool cheat = is_true(verdict, "cheated");
    if (is_true(verdict, "correct") && !cheat) return Outcome::kCorrect;
    cheated |= cheat;
    compiled |= is_true(verdict, "compiled");
    failed = text(turn, "status") == "failed";
  }
  if (failed) return Outcome::kFailed;
  if (cheated) return Outcome::kCheat;
  return compiled ? Outcome::kWrong : Outcome::kNotCompiled;
}

bool contains(std::string_view whole, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(whole.begin(), whole.end(), part.begin(), part.end(), same) != whole.end();
}

template <typename Row>
void cut(std::vector<Row>& rows, size_t offset, size_t limit) {
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(offset, rows.size())));
  rows.resize(std::min({rows.size(), limit, TrajectoryIndex::kMostRows}));
}

}  // namespace

Json without_tokens(Json trajectory) {
  const auto turns = trajectory.find("turns");
  if (turns == trajectory.end() || !turns->is_array()) return trajectory;
  for (Json& turn : *turns) {
    if (!turn.is_object()) continue;
    for (const auto* key : {"prompt_tokens", "response_tokens", "log_probs", "weight_versions"}) {
      const auto found = turn.find(key);
      if (found == turn.end()) continue;
      if (found->is_array()) turn[std::string(key) + "_count"] = found->size();
      turn.erase(key);
    }
  }
  return trajectory;
}

bool TrajectoryIndex::read() {
  std::error_code missing;
  bytes_ = fs::file_size(file_, missing);
  if (missing) bytes_ = 0;
  if (bytes_ < offset_) {
    log::warn("{} became shorter: it is read anew", file_.string());
    *this = TrajectoryIndex(file_);
    return true;
  }
  if (bytes_ == offset_) return false;
  std::ifstream file(file_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset_));
  std::string line;
  const uint64_t end = offset_ + kSlice;
  while (offset_ < end && std::getline(file, line) && !file.eof()) {  // one without its newline waits
    if (!line.empty()) add(line, offset_);
    offset_ += line.size() + 1;
  }
  return offset_ >= end;
}

void TrajectoryIndex::add(std::string_view line, uint64_t offset) {
  const Json trajectory = Json::parse(line, is_kept, /*allow_exceptions=*/false);
  if (!trajectory.is_object()) {
    if (++skipped_ == 1)
      log::warn("{}: a line that is not a JSON object is skipped: {}", file_.string(), line.substr(0, 80));
    return;
  }
  const Json turns = trajectory.contains("turns") && trajectory["turns"].is_array() ? trajectory["turns"]
                                                                                    : Json::array();
  Entry entry{.offset = offset, .size = static_cast<uint32_t>(line.size())};
  entry.id = text(trajectory, "id");
  entry.step = static_cast<int32_t>(number(trajectory, "step"));
  entry.reward = static_cast<float>(number(trajectory, "reward"));
  entry.turns = static_cast<uint8_t>(std::min<size_t>(turns.size(), 255));
  entry.outcome = outcome_of(turns);
  const auto [problem, fresh] = problem_numbers_.try_emplace(text(trajectory, "problem_id"), problems_.size());
  if (fresh) problems_.push_back(problem->first);
  entry.problem = problem->second;
  for (const Json& turn : turns) {
    if (!turn.is_object() || !turn.contains("verdict") || !turn["verdict"].is_object()) continue;
    const Json& verdict = turn["verdict"];
    if (is_true(verdict, "correct"))
      entry.speedup = std::max(entry.speedup, static_cast<float>(number(verdict, "speedup")));
    for (const Json& flag : verdict.value("flags", Json::array())) {
      if (!flag.is_object()) continue;
      const std::string name = text(flag, "name");
      const auto known = std::find(flag_names_.begin(), flag_names_.end(), name);
      const auto bit = static_cast<size_t>(known - flag_names_.begin());
      if (bit >= kMostFlags) continue;  // a verdict has 15 names
      if (known == flag_names_.end()) {
        flag_names_.push_back(name);
        flag_cheats_.push_back(is_true(flag, "cheat"));
      }
      entry.flags |= 1U << bit;
    }
  }
  first_step_ = entries_.empty() ? entry.step : std::min(first_step_, entry.step);
  last_step_ = entries_.empty() ? entry.step : std::max(last_step_, entry.step);
  entries_.push_back(std::move(entry));
}

Json TrajectoryIndex::summary(size_t index) const {
  const Entry& entry = entries_[index];
  Json flags = Json::array();
  for (size_t bit = 0; bit < flag_names_.size(); ++bit) {
    if ((entry.flags >> bit & 1U) != 0) flags.push_back(flag_names_[bit]);
  }
  return {{"index", index},
          {"id", entry.id},
          {"problem_id", problems_[entry.problem]},
          {"step", entry.step},
          {"reward", entry.reward},
          {"speedup", entry.speedup},
          {"turns", entry.turns},
          {"outcome", name_of(entry.outcome)},
          {"flags", flags}};
}

bool TrajectoryIndex::matches(const Entry& entry, const TrajectoryQuery& query,
                              const std::vector<bool>& problems) const {
  if (query.outcome && entry.outcome != *query.outcome) return false;
  if (query.first_step && entry.step < *query.first_step) return false;
  if (query.last_step && entry.step > *query.last_step) return false;
  if (query.turns && entry.turns != *query.turns) return false;
  if (!query.problem.empty() && problems_[entry.problem] != query.problem) return false;
  if (!query.flag.empty()) {
    const auto known = std::find(flag_names_.begin(), flag_names_.end(), query.flag);
    if (known == flag_names_.end() || (entry.flags >> (known - flag_names_.begin()) & 1U) == 0) return false;
  }
  return query.search.empty() || problems[entry.problem] || contains(entry.id, query.search);
}

Json TrajectoryIndex::query(const TrajectoryQuery& query) const {
  std::vector<bool> problems;  // whose name has what is searched for
  for (const std::string& problem : problems_) problems.push_back(contains(problem, query.search));
  std::vector<size_t> found;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (matches(entries_[i], query, problems)) found.push_back(i);
  }
  const size_t matched = found.size();
  const auto by = [&](auto value) {
    std::stable_sort(found.begin(), found.end(),
                     [&](size_t a, size_t b) { return value(entries_[a]) > value(entries_[b]); });
  };
  if (query.order != TrajectoryOrder::kOldest) std::reverse(found.begin(), found.end());
  if (query.order == TrajectoryOrder::kReward) by([](const Entry& entry) { return entry.reward; });
  if (query.order == TrajectoryOrder::kSpeedup) by([](const Entry& entry) { return entry.speedup; });
  cut(found, query.offset, query.limit);
  Json rows = Json::array();
  for (const size_t index : found) rows.push_back(summary(index));
  return {{"total", entries_.size()}, {"matched", matched},        {"bytes", bytes_},
          {"indexed_bytes", offset_}, {"flag_names", flag_names_}, {"rows", std::move(rows)}};
}

std::string TrajectoryIndex::line_of(const Entry& entry) const {
  std::ifstream file(file_, std::ios::binary);
  std::string line(entry.size, '\0');
  file.seekg(static_cast<std::streamoff>(entry.offset));
  if (!file.read(line.data(), static_cast<std::streamsize>(line.size())))
    fail(ErrorKind::kCorrupt, "{} is shorter than it was", file_.string());
  return line;
}

Json TrajectoryIndex::at(size_t index) const {
  if (index >= entries_.size()) fail(ErrorKind::kNotFound, "no trajectory {}: there are {}", index, entries_.size());
  Json trajectory = without_tokens(parse_json(line_of(entries_[index]), file_.string()));
  trajectory["index"] = index;
  return trajectory;
}

size_t TrajectoryIndex::bucket_of(const Entry& entry) const {
  const int64_t steps = int64_t{last_step_} - first_step_ + 1;
  return static_cast<size_t>((int64_t{entry.step} - first_step_) * static_cast<int64_t>(kBuckets) /
                             std::max<int64_t>(steps, kBuckets));
}

Json TrajectoryIndex::problems(const std::string& search, size_t offset, size_t limit) const {
  struct Sums {
    int64_t samples = 0, correct = 0, cheats = 0;
    float best = 0;
    std::array<int64_t, kBuckets> tried{}, solved{};
    double rate() const { return static_cast<double>(correct) / static_cast<double>(std::max<int64_t>(samples, 1)); }
  };
  std::vector<Sums> sums(problems_.size());
  for (const Entry& entry : entries_) {
    if (entry.outcome == Outcome::kFailed) continue;  // a failure of ours says nothing of the model
    Sums& sum = sums[entry.problem];
    const size_t bucket = bucket_of(entry);
    const bool correct = entry.outcome == Outcome::kCorrect;
    ++sum.samples;
    ++sum.tried[bucket];
    sum.correct += correct ? 1 : 0;
    sum.solved[bucket] += correct ? 1 : 0;
    sum.cheats += entry.outcome == Outcome::kCheat ? 1 : 0;
    sum.best = std::max(sum.best, entry.speedup);
  }
  std::vector<size_t> found;
  for (size_t i = 0; i < problems_.size(); ++i) {
    if (sums[i].samples > 0 && contains(problems_[i], search)) found.push_back(i);
  }
  std::sort(found.begin(), found.end(), [&](size_t a, size_t b) {
    return std::pair(sums[a].rate(), problems_[a]) < std::pair(sums[b].rate(), problems_[b]);
  });
  const size_t matched = found.size();
  cut(found, offset, limit);
  Json rows = Json::array();
  for (const size_t i : found) {
    Json rates = Json::array();
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      const auto tried = static_cast<double>(sums[i].tried[bucket]);
      rates.push_back(tried > 0 ? Json(static_cast<double>(sums[i].solved[bucket]) / tried) : Json());
    }
    rows.push_back({{"problem_id", problems_[i]},
                    {"samples", sums[i].samples},
                    {"correct", sums[i].correct},
                    {"cheats", sums[i].cheats},
                    {"best_speedup", sums[i].best},
                    {"rates", std::move(rates)}});
  }
  return {{"first_step", first_step_}, {"last_step", last_step_}, {"matched", matched}, {"rows", std::move(rows)}};
}

Json TrajectoryIndex::flags() const {
  using Counts = std::array<int64_t, kBuckets>;
  std::map<std::string_view, Counts> outcomes;
  std::vector<Counts> counts(flag_names_.size(), Counts{});
  std::vector<size_t> newest(flag_names_.size(), 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const size_t bucket = bucket_of(entries_[i]);
    ++outcomes.try_emplace(name_of(entries_[i].outcome), Counts{}).first->second[bucket];
    for (size_t bit = 0; bit < flag_names_.size(); ++bit) {
      if ((entries_[i].flags >> bit & 1U) == 0) continue;
      ++counts[bit][bucket];
      newest[bit] = i;
    }
  }
  Json flags = Json::array();
  for (size_t bit = 0; bit < flag_names_.size(); ++bit) {
    flags.push_back({{"name", flag_names_[bit]},
                     {"cheat", static_cast<bool>(flag_cheats_[bit])},
                     {"trajectories", std::accumulate(counts[bit].begin(), counts[bit].end(), int64_t{0})},
                     {"newest", newest[bit]},
                     {"counts", counts[bit]}});
  }
  return {{"first_step", first_step_}, {"last_step", last_step_}, {"outcomes", outcomes}, {"flags", std::move(flags)}};
}

}  // namespace tritonforge::dashboard
