#include "dataset/build/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/checksum.h"

namespace tritonforge::dataset {
namespace {

std::string bar_of(int64_t value, int64_t largest) {
  constexpr int64_t kWidth = 40;
  return std::string(static_cast<size_t>(largest == 0 ? 0 : (value * kWidth + largest - 1) / largest), '#');
}

// The largest first, at most `most` of them.
std::string table_of(const std::string& title, const Json& counts, size_t most) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [key, count] : counts.items()) sorted.emplace_back(-count.get<int64_t>(), key);
  std::sort(sorted.begin(), sorted.end());
  std::string out = sorted.empty() ? "" : "\n" + title + "\n";
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i)
    out += fmt::format("  {:8}  {}\n", -sorted[i].first, sorted[i].second.empty() ? "(none)" : sorted[i].second);
  if (sorted.size() > most) out += fmt::format("  {:>8}  more\n", sorted.size() - most);
  return out;
}

std::string stage_text(const Json& stage) {
  std::string out = fmt::format("  {:14} {:8} {:8}", stage["name"].get<std::string>(), stage["in"].get<int64_t>(),
                                stage["kept"].get<int64_t>());
  for (const auto& [reason, count] : stage["dropped"].items())
    out += fmt::format("\n  {:31} {:8}  {}", "", count.get<int64_t>(), reason);
  for (const auto& [what, count] : stage["repaired"].items())
    out += fmt::format("\n  {:31} {:8}  repaired: {}", "", count.get<int64_t>(), what);
  return out + "\n";
}

std::string split_text(const std::string& name, const Json& split) {
  std::string out = fmt::format(
      "\nsplit '{}': {} conversations, {} prompts, {} tokens, {} of them learned; {} with a "
      "refused attempt, {} with a thought\n",
      name, split["rows"].get<int64_t>(), split["prompts"].get<int64_t>(), split["tokens"].get<int64_t>(),
      split["learned"].get<int64_t>(), split["repairs"].get<int64_t>(), split["thoughts"].get<int64_t>());
  int64_t largest = 0;
  for (const auto& [below, count] : split["lengths"].items()) largest = std::max(largest, count.get<int64_t>());
  if (largest > 0) out += "tokens of a row\n";
  for (size_t power = 0; power < 32; ++power) {
    const std::string key = fmt::format("{}", uint64_t{1} << power);
    if (split["lengths"].contains(key)) {
      const auto count = split["lengths"][key].get<int64_t>();
      out += fmt::format("  {:>6}..{:<6} {:8}  {}\n", key, (uint64_t{2} << power) - 1, count, bar_of(count, largest));
    }
  }
  return out;
}

// Whoever wrote the card, it names nothing outside of its folder.
bool is_plain(const fs::path& path) {
  return path.is_relative() && path == path.lexically_normal() && path.has_filename() && *path.begin() != "..";
}

}  // namespace

void StageCounts::count(const Row& row, size_t repairs_before) {
  ++in;
  if (row.dropped) ++dropped[row.dropped->reason];
  else ++kept;
  for (size_t i = repairs_before; i < row.repairs.size(); ++i) ++repaired[row.repairs[i]];
}

void Card::count_kept(const Row& row) {
  SplitCounts& split = splits[row.split];
  ++(row.learns() ? split.rows : split.prompts);
  split.tokens += static_cast<int64_t>(row.tokens.tokens.size());
  split.learned += std::count(row.tokens.loss_mask.begin(), row.tokens.loss_mask.end(), 1);
  split.repairs += !row.attempts.empty();
  split.thoughts += std::any_of(row.messages.begin(), row.messages.end(),
                                [](const auto& each) { return !each.message.reasoning_content.empty(); });
  if (const size_t length = row.tokens.tokens.size(); length > 0) {
    const auto power = static_cast<size_t>(std::bit_width(length) - 1);
    split.lengths.resize(std::max(split.lengths.size(), power + 1));
    ++split.lengths[power];
  }
  for (const std::string& family : row.families) ++families[family];
  ++licences[row.licence];
  ++sources[row.source];
}

void Card::add_output(const fs::path& file, const fs::path& folder) {
  outputs[fs::relative(file, folder).string()] = checksum_of_file(file);
}

void Card::digest_sources() {
  for (const auto& [source, files] : source_files) {
    for (const fs::path& file : files) inputs[source + ": " + file.filename().string()] = checksum_of_file(file);
  }
}

void Card::take_away_earlier(const fs::path& folder) const {
  std::set<fs::path> read;
  for (const auto& [source, files] : source_files) {
    for (const fs::path& file : files) read.insert(fs::weakly_canonical(file));
  }
  if (const auto earlier = outputs_in_card(folder)) {
    for (const std::string& name : *earlier) {
      const fs::path file = folder / name;
      if (fs::is_regular_file(file) && !read.contains(fs::weakly_canonical(file))) fs::remove(file);
    }
  }
  // Where a kill ends this, the next build still knows what to take away.
  for (const char* name : {"card.txt", "card.json"}) fs::remove(folder / name);
}

std::optional<std::set<std::string>> outputs_in_card(const fs::path& folder) {
  const fs::path file = folder / "card.json";
  if (!fs::is_regular_file(file)) return std::nullopt;
  const Json card = parse_json_or_discard(read_file(file));
  if (!card.is_object() || !card.contains("outputs") || !card["outputs"].is_object()) return std::nullopt;
  std::set<std::string> names;
  for (const auto& [name, digest] : card["outputs"].items()) {
    if (is_plain(name)) names.insert(name);
  }
  return names;
}

Json to_json(const Card& card) {
  Json stages = Json::array(), splits = Json::object();
  for (const StageCounts& stage : card.stages) {
    stages.push_back({{"name", stage.name},
                      {"in", stage.in},
                      {"kept", stage.kept},
                      {"dropped", stage.dropped},
                      {"repaired", stage.repaired},
                      {"report", stage.report}});
  }
  for (const auto& [name, split] : card.splits) {
    Json lengths = Json::object();
    for (size_t power = 0; power < split.lengths.size(); ++power) {
      if (split.lengths[power] > 0) lengths[fmt::format("{}", uint64_t{1} << power)] = split.lengths[power];
    }
    splits[name] = {{"rows", split.rows},       {"prompts", split.prompts}, {"tokens", split.tokens},
                    {"learned", split.learned}, {"repairs", split.repairs}, {"thoughts", split.thoughts},
                    {"lengths", lengths}};
  }
  return Json{{"name", card.name},         {"seed", card.seed},       {"config", card.config},
              {"stages", stages},          {"splits", splits},        {"families", card.families},
              {"licences", card.licences}, {"sources", card.sources}, {"inputs", card.inputs},
              {"outputs", card.outputs}};
}

std::string card_text(const Json& card) {
  std::string out = fmt::format("{} (seed {})\n\n  {:14} {:>8} {:>8} {:>8}\n", card["name"].get<std::string>(),
                                card["seed"].get<uint64_t>(), "stage", "in", "kept", "dropped");
  for (const Json& stage : card["stages"]) out += stage_text(stage);
  for (const auto& [name, split] : card["splits"].items()) out += split_text(name, split);
  out += table_of("sources", card["sources"], 20) + table_of("families", card["families"], 30) +
         table_of("licences", card["licences"], 20);
  out += "\nchecksums (XXH3-128)\n";
  for (const char* side : {"inputs", "outputs"}) {
    for (const auto& [name, digest] : card[side].items())
      out += fmt::format("  {}  {}\n", digest.get<std::string>(), name);
  }
  return out;
}

}  // namespace tritonforge::dataset
