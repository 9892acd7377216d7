#include "dataset/pairs.h"

#include <sstream>

#include "base/json.h"

namespace tritonforge {

std::vector<Pair> read_pairs(const fs::path& path) {
  std::istringstream lines(read_file(path));
  std::vector<Pair> pairs;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path.string(), number);
    const Json json = parse_json(line, where);
    Pair pair;
    pair.id = require<std::string>(json, "id", where);
    pair.problem = require<std::string>(json, "problem", where);
    pair.solution = require<std::string>(json, "solution", where);
    pair.families = optional_field<std::vector<std::string>>(json, "families", {}, where);
    pair.combo = optional_field<std::string>(json, "combo", "", where);
    pair.split = optional_field<std::string>(json, "split", "train", where);
    if (const Json refinement = json.value("refinement", Json()); refinement.is_object()) {
      pair.wrong = require<std::string>(refinement, "wrong", where);
      pair.feedback = require<std::string>(refinement, "feedback", where);
    }
    pairs.push_back(std::move(pair));
  }
  if (pairs.empty()) fail(ErrorKind::kUsage, "{} holds no pairs", path.string());
  return pairs;
}

}  // namespace tritonforge
