#include "dataset/pair.h"

#include <algorithm>
#include <set>

#include "dataset/compose.h"

namespace tritonforge::dataset {
namespace {

Json message_to_json(const tokenizer::Message& message) {
  return Json{{"role", message.role}, {"content", message.content}};
}

tokenizer::Message message_of(const Json& json, std::string_view where) {
  if (!json.is_object()) fail(ErrorKind::kUsage, "{}: field 'messages' is not a list of messages", where);
  return tokenizer::Message{.role = require<std::string>(json, "role", where),
                            .content = require<std::string>(json, "content", where)};
}

PairStats::Length length_of(std::vector<size_t> sizes) {
  if (sizes.empty()) return {};
  std::sort(sizes.begin(), sizes.end());
  return {sizes.front(), sizes[sizes.size() / 2], sizes.back()};
}

Json to_json(const PairStats::Length& length) {
  return Json{{"min", length.min}, {"median", length.median}, {"max", length.max}};
}

}  // namespace

Json to_json(const Pair& pair) {
  Json json{
      {"id", pair.id},       {"families", pair.families}, {"combo", pair.combo},       {"style", pair.style},
      {"split", pair.split}, {"problem", pair.problem},   {"solution", pair.solution}, {"verified", pair.verified},
      {"seed", pair.seed}};
  for (const auto& message : pair.messages) json["messages"].push_back(message_to_json(message));
  // The usual one is an object, several are a list.
  Json refinements = Json::array();
  for (const auto& [mistake, wrong, feedback] : pair.refinements)
    refinements.push_back({{"mistake", mistake}, {"wrong", wrong}, {"feedback", feedback}});
  if (refinements.size() == 1) json["refinement"] = std::move(refinements[0]);
  else if (!refinements.empty()) json["refinements"] = std::move(refinements);
  return json;
}

Pair pair_from_json(const Json& json, std::string_view where) {
  if (!json.is_object()) fail(ErrorKind::kUsage, "{}: not a JSON object", where);
  Pair pair;
  pair.id = require<std::string>(json, "id", where);
  pair.families = require<std::vector<std::string>>(json, "families", where);
  pair.combo = require<std::string>(json, "combo", where);
  pair.style = optional_field<std::string>(json, "style", "compact", where);
  pair.split = optional_field<std::string>(json, "split", "train", where);
  if (pair.split != "train" && pair.split != "rl" && pair.split != "holdout") {
    fail(ErrorKind::kUsage, "{}: unknown split '{}'{}", where, pair.split,
         nearest_hint(pair.split, {"train", "rl", "holdout"}));
  }
  pair.problem = require<std::string>(json, "problem", where);
  pair.solution = require<std::string>(json, "solution", where);
  pair.verified = optional_field<bool>(json, "verified", false, where);
  pair.seed = optional_field<uint64_t>(json, "seed", 0, where);
  const auto messages = optional_field<Json>(json, "messages", Json::array(), where);
  if (!messages.is_array()) fail(ErrorKind::kUsage, "{}: field 'messages' is not a list of messages", where);
  for (const auto& message : messages) pair.messages.push_back(message_of(message, where));
  for (const char* field : {"refinement", "refinements"}) {
    const auto found = json.find(field);
    if (found == json.end() || found->is_null()) continue;
    for (const auto& each : found->is_array() ? *found : Json::array({*found})) {
      if (!each.is_object()) fail(ErrorKind::kUsage, "{}: field '{}' is not an object", where, field);
      pair.refinements.push_back({optional_field<std::string>(each, "mistake", "", where),
                                  require<std::string>(each, "wrong", where),
                                  require<std::string>(each, "feedback", where)});
    }
  }
  return pair;
}

std::vector<Pair> parse_pairs_jsonl(std::string_view text, std::string_view where) {
  std::vector<Pair> pairs;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto at = fmt::format("{}:{}", where, line);
    pairs.push_back(pair_from_json(parse_json(content, at), at));
  }
  return pairs;
}

std::vector<Pair> read_pairs(const fs::path& file) { return parse_pairs_jsonl(read_file(file), file.string()); }

Problem problem_of(const Pair& pair, int number) {
  Problem problem;
  problem.level = pair.families.size() == 1 ? 1 : 2;
  problem.problem_id = number;
  problem.name = pair.combo;
  std::replace(problem.name.begin(), problem.name.end(), '+', '_');
  problem.id = fmt::format("level{}_{}_{}", problem.level, number, problem.name);
  problem.families = pair.families;
  problem.source = pair.problem;
  return problem;
}

PairStats stats_of(const std::vector<Pair>& pairs) {
  PairStats stats;
  std::set<std::string_view> problems;
  std::set<std::string> train;
  std::vector<size_t> problem_sizes, solution_sizes;
  for (const auto& pair : pairs) {
    if (pair.split == "train") train.insert(combo_key(pair.families));
  }
  for (const auto& pair : pairs) {
    ++stats.pairs;
    stats.verified += pair.verified;
    stats.duplicates += !problems.insert(pair.problem).second;
    stats.leaked += pair.split != "train" && train.contains(combo_key(pair.families));
    ++stats.by_split[pair.split];
    ++stats.by_style[pair.style];
    ++stats.by_combo[pair.combo];
    ++stats.by_chain_length[std::to_string(pair.families.size())];
    for (const auto& family : pair.families) ++stats.by_family[family];
    stats.refinements += !pair.refinements.empty();
    stats.several_refinements += pair.refinements.size() > 1;
    for (const auto& refinement : pair.refinements) ++stats.by_mistake[refinement.mistake];
    problem_sizes.push_back(pair.problem.size());
    solution_sizes.push_back(pair.solution.size());
  }
  stats.problem_chars = length_of(std::move(problem_sizes));
  stats.solution_chars = length_of(std::move(solution_sizes));
  return stats;
}

Json to_json(const PairStats& stats) {
  return Json{{"pairs", stats.pairs},
              {"verified", stats.verified},
              {"refinements", stats.refinements},
              {"several_refinements", stats.several_refinements},
              {"duplicates", stats.duplicates},
              {"leaked", stats.leaked},
              {"combos", stats.by_combo.size()},
              {"by_split", stats.by_split},
              {"by_style", stats.by_style},
              {"by_family", stats.by_family},
              {"by_combo", stats.by_combo},
              {"by_mistake", stats.by_mistake},
              {"by_chain_length", stats.by_chain_length},
              {"problem_chars", to_json(stats.problem_chars)},
              {"solution_chars", to_json(stats.solution_chars)}};
}

}  // namespace tritonforge::dataset
