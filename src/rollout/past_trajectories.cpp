#include "rollout/past_trajectories.h"

#include "base/json.h"
#include "base/nearest.h"
#include "rollout/prompts.h"
#include "rollout/sqlite.h"
#include "rollout/store_schema.h"

namespace tritonforge::rollout {
namespace {

// Of a run that is under way, too: its buffer goes on writing meanwhile.
Statement rows_of(Database& database) {
  check_schema(database);
  return database.prepare(
      "SELECT t.body, g.problem_id, g.problem_source, g.options, g.messages FROM trajectories t "
      "JOIN groups g ON g.id = t.group_id WHERE t.failed = 0 AND g.id NOT LIKE 'bench-%' "
      "AND g.id NOT LIKE 'validation-%' ORDER BY t.seq");
}

class BufferFile : public dataset::PastTrajectories {
 public:
  explicit BufferFile(const fs::path& file) : database_(Database::reader_of(file)), rows_(rows_of(database_)) {}

  std::optional<dataset::PastTrajectory> next() override {
    if (!rows_.step()) return std::nullopt;
    const std::string where = database_.path().string();
    const Trajectory trajectory = transcript_from_json(parse_json(rows_.text(0), where));
    GroupSpec group;
    group.problem_id = rows_.text(1);
    group.problem_source = rows_.text(2);
    group.options = rollout_options_from_json(parse_json(rows_.text(3), where), where);
    if (const OrderedJson messages = parse_ordered_json(rows_.text(4), where); !messages.empty())
      group.messages = tokenizer::messages_from_json(messages, where);
    return past_trajectory(group, trajectory);
  }

 private:
  Database database_;
  Statement rows_;
};

}  // namespace

dataset::PastTrajectory past_trajectory(const GroupSpec& group, const Trajectory& trajectory) {
  dataset::PastTrajectory past{group.problem_id, group.problem_source, opening_messages(group), {}};
  for (const Turn& turn : trajectory.turns)
    past.turns.push_back(
        {turn.text, turn.code, feedback_message(group.options.prompt, turn.verdict).content, turn.verdict});
  return past;
}

std::unique_ptr<dataset::PastTrajectories> open_past_trajectories(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? path / "buffer.sqlite" : path;
  if (!fs::is_regular_file(file))
    fail(ErrorKind::kNotFound, "{}: no such run or buffer{}", file.string(), nearest_path_hint(file));
  return std::make_unique<BufferFile>(file);
}

}  // namespace tritonforge::rollout
