#include "dataset/build/row.h"

#include <algorithm>

namespace tritonforge::dataset {

bool Row::learns() const {
  return std::any_of(messages.begin(), messages.end(), [](const auto& each) { return each.learned; });
}

size_t Row::size() const {
  size_t size = sizeof(Row) + problem.size() + solution.size() + reasoning.size() + tokens.tokens.size() * 9;
  for (const Attempt& attempt : attempts) size += attempt.code.size() + attempt.text.size() + attempt.feedback.size();
  for (const auto& each : messages) size += each.message.content.size() + each.message.reasoning_content.size();
  return size;
}

std::string compared_text(const Row& row) {
  if (!row.problem.empty()) return row.problem + "\n" + row.solution;
  std::string text;
  for (const auto& each : row.messages) text += each.message.content + "\n";
  return text;
}

Json to_json(const Row& row) {
  Json messages = Json::array();
  for (const auto& [message, learned] : row.messages) {
    Json& line = messages.emplace_back(Json{{"role", message.role}, {"content", message.content}});
    if (!message.reasoning_content.empty()) line["reasoning_content"] = message.reasoning_content;
    if (message.role == "assistant") line["weight"] = learned ? 1 : 0;
  }
  Json out{{"uuid", row.uuid},         {"source", row.source}, {"place", row.place},  {"licence", row.licence},
           {"families", row.families}, {"split", row.split},   {"messages", messages}};
  if (!row.repository.empty()) out["repository"] = row.repository;
  if (row.stars) out["stars"] = *row.stars;
  if (!row.repairs.empty()) out["repairs"] = row.repairs;
  if (!row.tokens.tokens.empty()) out["tokens"] = row.tokens.tokens.size();
  if (row.verdict) {
    out["verdict"] = {{"correct", row.verdict->correct},
                      {"stage", name_of(row.verdict->stage)},
                      {"error_kind", name_of(row.verdict->fault)}};
  }
  return out;
}

}  // namespace tritonforge::dataset
