#include "dataset/problem.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"
#include "dataset/parquet.h"
#include "dataset/source_families.h"
#include "tokenizer/unicode.h"

namespace tritonforge::dataset {
namespace {

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::vector<std::string> families_of(std::string_view source) {
  constexpr std::string_view kMark = "# families:";
  std::vector<std::string> families;
  if (!source.starts_with(kMark)) return families_of_calls(source);
  std::string_view rest = source.substr(kMark.size(), source.find('\n') - kMark.size());
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (const auto family = trimmed(rest.substr(0, comma)); !family.empty()) families.emplace_back(family);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return families;
}

// "19_relu" -> 19, "relu"; a stem without a number keeps 0 and its whole text.
std::pair<int, std::string> split_number(std::string_view stem) {
  const size_t underscore = stem.find('_');
  if (underscore != std::string_view::npos) {
    if (const auto number = parse_int(stem.substr(0, underscore))) {
      return {*number, std::string(stem.substr(underscore + 1))};
    }
  }
  return {0, std::string(stem)};
}

std::string make_id(int level, int problem_id, std::string_view name) {
  return fmt::format("level{}_{}_{}", level, problem_id, name);
}

void check_source(std::string_view source, std::string_view where) {
  for (const char* needed : {"class Model", "def get_inputs", "def get_init_inputs"}) {
    if (source.find(needed) == std::string_view::npos) {
      fail(ErrorKind::kUsage, "{}: not a problem: it has no '{}'", where, needed);
    }
  }
  // It goes to the servers in JSON.
  if (!tokenizer::unicode::is_valid_utf8(source)) fail(ErrorKind::kUsage, "{}: not a problem: it is no UTF-8", where);
}

std::optional<int> level_of_folder(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with("level") ? parse_int(std::string_view(name).substr(5)) : std::nullopt;
}

Problem read_problem_file(const fs::path& file) {
  Problem problem;
  problem.source = read_source(file);
  check_source(problem.source, file.string());
  const std::string stem = file.stem().string();
  std::tie(problem.problem_id, problem.name) = split_number(stem);
  const auto level = level_of_folder(fs::absolute(file).parent_path());
  problem.level = level.value_or(1);
  problem.families = families_of(problem.source);
  problem.id = level ? make_id(problem.level, problem.problem_id, problem.name) : stem;
  return problem;
}

// A number that some writers put in quotes.
int number_field(const Json& object, const char* key, std::optional<int> fallback, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    if (fallback) return *fallback;
    fail(ErrorKind::kUsage, "{}: field '{}' is missing", where, key);
  }
  if (found->is_number_integer()) {
    const auto wide = found->get<int64_t>();
    if (wide >= 0 && wide <= INT32_MAX) return static_cast<int>(wide);
  }
  if (found->is_string()) {
    if (const auto value = parse_int(found->get_ref<const std::string&>())) return *value;
  }
  fail(ErrorKind::kUsage, "{}: field '{}' is not a number", where, key);
}

Problem problem_from_json(const Json& line, std::string_view where) {
  if (!line.is_object()) fail(ErrorKind::kUsage, "{}: not a JSON object", where);
  Problem problem;
  if (line.contains("label")) {  // TritonForge's RL line
    problem.source = require<std::string>(line, "label", where);
    const Json extra = optional_field<Json>(line, "extra_info", Json::object(), where);
    if (!extra.is_object()) fail(ErrorKind::kUsage, "{}: field 'extra_info' is not an object", where);
    problem.level = number_field(extra, "level", 1, where);
    problem.problem_id = number_field(extra, "problem_id", 0, where);
    problem.name = optional_field<std::string>(extra, "problem_name", "", where);
    problem.id = optional_field<std::string>(line, "instance_id", "", where);
  } else if (line.contains("code")) {  // KernelBench
    problem.source = require<std::string>(line, "code", where);
    problem.level = number_field(line, "level", std::nullopt, where);
    problem.problem_id = number_field(line, "problem_id", std::nullopt, where);
    problem.name = optional_field<std::string>(line, "name", "", where);
    problem.id = optional_field<std::string>(line, "id", "", where);
  } else if (line.contains("problem")) {  // a generated pair
    problem.source = require<std::string>(line, "problem", where);
    problem.level = number_field(line, "level", 1, where);
    problem.id = require<std::string>(line, "id", where);
    problem.name = optional_field<std::string>(line, "combo", problem.id, where);
  } else {
    fail(ErrorKind::kUsage, "{}: none of the fields 'code', 'label' and 'problem', one of which holds the source",
         where);
  }
  if (const auto [number, name] = split_number(problem.name); number == problem.problem_id && number != 0)
    problem.name = name;
  problem.families = optional_field<std::vector<std::string>>(line, "families", families_of(problem.source), where);
  check_source(problem.source, where);
  if (problem.id.empty()) problem.id = make_id(problem.level, problem.problem_id, problem.name);
  return problem;
}

void check_unique(const std::vector<Problem>& problems, std::string_view where) {
  std::set<std::string_view> seen;
  for (const auto& problem : problems) {
    if (!seen.insert(problem.id).second)
      fail(ErrorKind::kUsage, "{}: problem id '{}' is there twice", where, problem.id);
  }
}

// A row is what a line of JSON in KernelBench's form is.
std::vector<Problem> read_parquet_file(const fs::path& file) {
  const std::vector<WantedColumn> columns = {{"code", ColumnKind::kText},
                                             {"level", ColumnKind::kInteger},
                                             {"problem_id", ColumnKind::kInteger},
                                             {"name", ColumnKind::kText},
                                             {"id", ColumnKind::kText, /*required=*/false}};
  ParquetReader reader(file, columns);
  std::vector<Problem> problems;
  for (size_t group = 0; group < reader.groups(); ++group) {
    const Table table = reader.read(group);
    for (size_t row = 0; row < table.rows(); ++row) {
      Json line = Json::object();
      for (const Column& column : table.columns) {
        if (const auto* texts = std::get_if<Texts>(&column.values)) {
          if (const auto& text = (*texts)[row]) line[column.name] = *text;
        } else if (const auto& number = std::get<Integers>(column.values)[row]) {
          line[column.name] = *number;
        }
      }
      const std::string at = fmt::format("{} row {}", file.string(), problems.size() + 1);
      if (!line.contains("code")) fail(ErrorKind::kUsage, "{}: 'code' is null", at);
      problems.push_back(problem_from_json(line, at));
    }
  }
  if (problems.empty()) fail(ErrorKind::kUsage, "{}: no problems in it", file.string());
  return problems;
}

// One file of problems; nothing where its name ends in none of their endings.
std::optional<std::vector<Problem>> read_file_of_problems(const fs::path& file) {
  if (file.extension() == ".py") return std::vector{read_problem_file(file)};
  if (file.extension() == ".jsonl") return parse_problems_jsonl(read_file(file), file.string());
  if (file.extension() == ".parquet") return read_parquet_file(file);
  return std::nullopt;
}

constexpr const char* kEndings[] = {".py", ".jsonl", ".parquet"};

bool is_hidden(const fs::path& file) { return file.filename().string().starts_with("."); }

// Its *.py, or else its *.jsonl, or else its *.parquet: a data set may stand beside an export of itself.
void read_folder(const fs::path& folder, std::vector<Problem>& problems) {
  for (const char* ending : kEndings) {
    bool any = false;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_regular_file() || entry.path().extension() != ending || is_hidden(entry.path())) continue;
      any = true;
      auto read = read_file_of_problems(entry.path());
      problems.insert(problems.end(), std::make_move_iterator(read->begin()), std::make_move_iterator(read->end()));
    }
    if (any) return;
  }
}

}  // namespace

std::vector<Problem> parse_problems_jsonl(std::string_view text, std::string_view where) {
  std::vector<Problem> problems;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto content = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.empty()) continue;
    const auto at = fmt::format("{}:{}", where, line);
    problems.push_back(problem_from_json(parse_json(content, at), at));
  }
  if (problems.empty()) fail(ErrorKind::kUsage, "{}: no problems in it", where);
  check_unique(problems, where);
  return problems;
}

std::vector<Problem> read_problems(const fs::path& path) {
  if (!fs::exists(path))
    fail(ErrorKind::kNotFound, "{}: no such file or folder of problems{}", path.string(), nearest_path_hint(path));
  if (!fs::is_directory(path)) {
    auto read = read_file_of_problems(path);
    if (!read) fail(ErrorKind::kUsage, "{}: problems are a folder or a .jsonl, .parquet or .py file", path.string());
    check_unique(*read, path.string());
    return std::move(*read);
  }
  std::vector<Problem> problems;
  bool levels = false;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_directory() && level_of_folder(entry.path())) {
      levels = true;
      read_folder(entry.path(), problems);
    }
  }
  if (!levels) read_folder(path, problems);
  if (problems.empty() && fs::is_directory(path / "data")) read_folder(path / "data", problems);  // as cloned from HF
  if (problems.empty())
    fail(ErrorKind::kNotFound, "{}: no problems in it (level1/NUMBER_name.py, *.py, *.jsonl or *.parquet)",
         path.string());
  std::sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.level, a.problem_id, a.name) < std::tie(b.level, b.problem_id, b.name);
  });
  check_unique(problems, path.string());
  return problems;
}

std::vector<std::string> skipped_files(const fs::path& path) {
  std::vector<std::string> names;
  // Whether it holds problems that are read.
  const auto look = [&](const fs::path& folder) {
    bool any = false;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path& file = entry.path();
      const std::string ending = file.extension().string();
      if (!entry.is_regular_file() || std::ranges::find(kEndings, lowered(ending)) == std::end(kEndings)) continue;
      const bool skipped = is_hidden(file) || ending != lowered(ending);
      if (skipped) names.push_back(file.lexically_relative(path).string());
      any = any || !skipped;
    }
    return any;
  };
  if (!fs::is_directory(path)) return names;
  const bool own = look(path);
  bool levels = false, of_levels = false;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.is_directory() || !level_of_folder(entry.path())) continue;
    levels = true;
    of_levels = look(entry.path()) || of_levels;
  }
  if (!(levels ? of_levels : own) && fs::is_directory(path / "data")) look(path / "data");
  std::ranges::sort(names);
  return names;
}

std::string problem_line(const Problem& problem) {
  return Json{{"id", problem.id},     {"level", problem.level},       {"problem_id", problem.problem_id},
              {"name", problem.name}, {"families", problem.families}, {"code", problem.source}}
      .dump();
}

std::vector<Problem> select_problems(std::vector<Problem> problems, const std::vector<int>& levels,
                                     const std::vector<std::string>& ids) {
  if (!levels.empty()) {
    std::set<int> there;
    for (const auto& problem : problems) there.insert(problem.level);
    for (const int level : levels) {
      if (!there.contains(level)) {
        fail(ErrorKind::kUsage, "no problems of level {} (there are levels {})", level, fmt::join(there, ", "));
      }
    }
    std::erase_if(problems, [&](const Problem& problem) {
      return std::find(levels.begin(), levels.end(), problem.level) == levels.end();
    });
  }
  if (ids.empty()) return problems;
  std::set<std::string> wanted(ids.begin(), ids.end()), found;
  std::vector<Problem> kept;
  std::vector<std::string> known;
  for (auto& problem : problems) {
    bool keep = false;
    for (const auto& name : {problem.id, std::to_string(problem.problem_id), problem.name}) {
      if (!wanted.contains(name)) continue;
      found.insert(name);
      keep = true;
    }
    known.push_back(problem.id);
    if (keep) kept.push_back(std::move(problem));
  }
  for (const auto& id : wanted) {
    if (found.contains(id)) continue;
    auto candidates = known;
    if (parse_int(id)) {  // a number is compared with numbers
      candidates.clear();
      for (const auto& name : known) {
        if (const auto [number, rest] = split_number(name.substr(std::min(name.find('_') + 1, name.size()))); number) {
          candidates.push_back(std::to_string(number));
        }
      }
    }
    fail(ErrorKind::kUsage, "no problem '{}'{}", id, nearest_hint(id, candidates.empty() ? known : candidates));
  }
  return kept;
}

}  // namespace tritonforge::dataset
