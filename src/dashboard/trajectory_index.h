#pragma once
// Where each line of a trajectories.jsonl is and what it is about, so that a page of a hundred thousand of them is
// found, filtered and added up without reading the file again. About 100 bytes a trajectory are kept.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"
#include "base/named_enum.h"

namespace tritonforge::dashboard {

// A trajectory as the page shows it: without token ids, log-probabilities and weight versions.
Json without_tokens(Json trajectory);

// What came of a trajectory: of its turns, the best.
enum class Outcome { kCorrect, kWrong, kNotCompiled, kCheat, kFailed };
constexpr std::array<std::string_view, 5> names_of(Outcome) {
  return {"correct", "wrong", "not_compiled", "cheat", "failed"};
}

enum class TrajectoryOrder { kNewest, kOldest, kReward, kSpeedup };
constexpr std::array<std::string_view, 4> names_of(TrajectoryOrder) {
  return {"newest", "oldest", "reward", "speedup"};
}

struct TrajectoryQuery {
  std::string search;   // part of its id or its problem's
  std::string problem;  // exactly this one
  std::string flag;     // one that a turn has
  std::optional<Outcome> outcome;
  std::optional<int64_t> first_step, last_step, turns;
  TrajectoryOrder order = TrajectoryOrder::kNewest;
  size_t offset = 0, limit = 50;
};

class TrajectoryIndex {
 public:
  static constexpr size_t kMostRows = 200;    // of one answer
  static constexpr size_t kBuckets = 24;      // of the steps, in problems() and flags()
  static constexpr size_t kSlice = 8U << 20;  // bytes that one read() takes at most, and one line more

  explicit TrajectoryIndex(fs::path file) : file_(std::move(file)) {}
  // Takes what is new, a slice at most; true while more is there. A line that is no JSON object counts as skipped.
  bool read();
  size_t size() const { return entries_.size(); }
  size_t skipped() const { return skipped_; }

  // {"total", "matched", "bytes", "indexed_bytes", "rows": [{"index", "id", "problem_id", "step", "reward", "speedup",
  // "turns", "outcome", "flags": [names]}]}
  Json query(const TrajectoryQuery& query) const;
  // The whole line, without tokens. Throws kNotFound.
  Json at(size_t index) const;
  // {"first_step", "last_step", "matched", "rows": [{"problem_id", "samples", "correct", "cheats", "best_speedup",
  // "rates": [share of correct ones in each bucket of the steps, or null]}]}, the least solved first.
  Json problems(const std::string& search, size_t offset, size_t limit) const;
  // {"first_step", "last_step", "outcomes": {NAME: [count in each bucket]}, "flags": [{"name", "cheat", "trajectories",
  // "newest": index, "counts": [...]}]}
  Json flags() const;

 private:
  struct Entry {
    uint64_t offset = 0;
    uint32_t size = 0, problem = 0, flags = 0;  // flags: a bit for each name in flag_names_
    int32_t step = 0;
    float reward = 0, speedup = 0;
    Outcome outcome = Outcome::kFailed;
    uint8_t turns = 0;
    std::string id;
  };
  void add(std::string_view line, uint64_t offset);
  Json summary(size_t index) const;
  bool matches(const Entry& entry, const TrajectoryQuery& query, const std::vector<bool>& problems) const;
  size_t bucket_of(const Entry& entry) const;
  std::string line_of(const Entry& entry) const;

  fs::path file_;
  uint64_t offset_ = 0, bytes_ = 0;
  size_t skipped_ = 0;
  int32_t first_step_ = 0, last_step_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::string> problems_, flag_names_;
  std::vector<bool> flag_cheats_;
  std::map<std::string, uint32_t, std::less<>> problem_numbers_;
};

}  // namespace tritonforge::dashboard
