#include "rollout/stored_group.h"

namespace tritonforge::rollout {

Json messages_to_json(const std::vector<tokenizer::Message>& messages) {
  Json out = Json::array();
  for (const tokenizer::Message& message : messages) {
    Json entry = {{"role", message.role}, {"content", message.content}};
    if (!message.reasoning_content.empty()) entry["reasoning_content"] = message.reasoning_content;
    if (!message.tool_calls.is_null()) entry["tool_calls"] = message.tool_calls;
    out.push_back(std::move(entry));
  }
  return out;
}

GroupSpec group_of(const Statement& row, int first) {
  GroupSpec group;
  group.id = row.text(first);
  group.problem_id = row.text(first + 1);
  group.problem_source = row.text(first + 2);
  group.n_samples = row.integer(first + 3);
  group.seed = static_cast<uint64_t>(row.integer(first + 4));
  const std::string where = "stored group " + group.id;
  group.options = rollout_options_from_json(parse_json(row.text(first + 5), where), where);
  for (const Json& message : parse_json(row.text(first + 6), where))
    group.messages.push_back(tokenizer::message_from_json(message, where));
  group.legacy = row.integer(first + 7) != 0;
  group.extra = parse_json(row.text(first + 8), where);
  return group;
}

GroupSpec group_named(Database& database, const std::string& group_id) {
  Statement row = database.prepare(fmt::format("SELECT {} FROM groups g WHERE g.id = ?", kGroupColumns));
  row.bind(1, group_id);
  TF_CHECK(row.step(), "group {} is not there", group_id);
  return group_of(row);
}

bool insert(Database& database, const GroupSpec& group, double created) {
  Statement insert = database.prepare(
      "INSERT OR IGNORE INTO groups(id, problem_id, problem_source, n_samples, seed, options, messages, legacy, extra, "
      "state, created) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?)");
  insert.bind(1, group.id).bind(2, group.problem_id).bind(3, group.problem_source).bind(4, group.n_samples);
  insert.bind(5, static_cast<int64_t>(group.seed)).bind(6, to_json(group.options).dump());
  insert.bind(7, messages_to_json(group.messages).dump()).bind(8, int64_t{group.legacy}).bind(9, group.extra.dump());
  insert.bind(10, created).run();
  return database.changes() != 0;
}

}  // namespace tritonforge::rollout
