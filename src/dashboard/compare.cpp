#include "dashboard/compare.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/config.h"

namespace tritonforge::dashboard {
namespace {

constexpr size_t kEqualSteps = 8;
// What a person asks first; --json has every figure.
constexpr const char* kShown[] = {"loss",      "reward_mean", "pass_rate", "compile_rate",
                                  "grad_norm", "entropy",     "kl",        "train_rollout_logprob_abs_diff",
                                  "seconds"};

// Runs of older versions wrote 0.05 as 0.050000000000000003.
std::string shortest(const std::string& text) {
  double number = 0;
  const bool real = text.find_first_of(".eE") != std::string::npos;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return real && error == std::errc() && end == text.data() + text.size() ? fmt::format("{}", number) : text;
}

void flatten(const YAML::Node& node, const std::string& path, std::map<std::string, std::string>& out) {
  if (!node.IsMap()) {
    YAML::Emitter text;
    text.SetSeqFormat(YAML::Flow);
    text << node;
    out[path] = shortest(text.c_str());
    return;
  }
  for (const auto& entry : node)
    flatten(entry.second, path + (path.empty() ? "" : ".") + entry.first.as<std::string>(), out);
}

std::map<std::string, std::string> recipe_of(const RunFolder& run) {
  std::map<std::string, std::string> keys;
  const fs::path file = run.path() / "recipe.yaml";
  if (fs::exists(file)) flatten(parse_yaml(read_file(file), file.string()), "", keys);
  return keys;
}

Json differing_keys(const std::vector<const RunFolder*>& runs) {
  std::vector<std::map<std::string, std::string>> recipes;
  std::set<std::string> keys;
  for (const RunFolder* run : runs) {
    recipes.push_back(recipe_of(*run));
    for (const auto& [key, value] : recipes.back()) keys.insert(key);
  }
  Json out = Json::array();
  for (const std::string& key : keys) {
    Json values = Json::array();
    for (const auto& recipe : recipes) values.push_back(recipe.contains(key) ? Json(recipe.at(key)) : Json());
    if (std::any_of(values.begin(), values.end(), [&](const Json& value) { return value != values[0]; }))
      out.push_back({{"key", key}, {"values", values}});
  }
  return out;
}

Json results_of(const std::vector<const RunFolder*>& runs) {
  struct Line {
    std::string name, label;
    int64_t turns = 1;
    Json rows;
  };
  std::vector<Line> lines;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i]->result().is_object()) continue;
    for (const Json& row : runs[i]->result().value("stages", Json::array())) {
      const std::string name = row.value("name", "");
      const int64_t turns = row.value("turns", int64_t{1});
      auto known = std::find_if(lines.begin(), lines.end(),
                                [&](const Line& line) { return line.name == name && line.turns == turns; });
      if (known == lines.end()) {
        lines.push_back({name, row.value("label", name), turns, Json(std::vector<Json>(runs.size()))});
        known = lines.end() - 1;
      }
      known->rows[i] = row;
    }
  }
  Json out = Json::array();
  for (const Line& line : lines)
    out.push_back({{"name", line.name}, {"label", line.label}, {"turns", line.turns}, {"rows", line.rows}});
  return out;
}

// At most kEqualSteps of them, evenly apart, the first and the last among them.
std::vector<int64_t> some_of(const std::vector<int64_t>& steps) {
  if (steps.size() <= kEqualSteps) return steps;
  std::vector<int64_t> picked;
  for (size_t i = 0; i < kEqualSteps; ++i) picked.push_back(steps[i * (steps.size() - 1) / (kEqualSteps - 1)]);
  return picked;
}

Json equal_steps(const std::vector<const RunFolder*>& runs) {
  Json out = Json::array();
  std::set<std::string> stages;
  for (const auto& [stage, curve] : runs.front()->curves().stages()) stages.insert(stage);
  for (const std::string& stage : stages) {
    std::vector<const Curves::Stage*> curves;
    for (const RunFolder* run : runs) {
      const auto found = run->curves().stages().find(stage);
      if (found != run->curves().stages().end()) curves.push_back(&found->second);
    }
    if (curves.size() != runs.size()) continue;
    std::vector<std::map<int64_t, size_t>> rows;  // step -> row
    std::set<std::string> figures;
    for (const Curves::Stage* curve : curves) {
      auto& of = rows.emplace_back();
      for (size_t i = 0; i < curve->steps.size(); ++i) of[curve->steps[i]] = i;
      for (const auto& [figure, column] : curve->columns) figures.insert(figure);
    }
    std::vector<int64_t> common;
    for (const auto& [step, row] : rows.front()) {
      if (std::all_of(rows.begin(), rows.end(), [step = step](const auto& of) { return of.contains(step); }))
        common.push_back(step);
    }
    for (const int64_t step : some_of(common)) {
      Json values = Json::object();
      for (const std::string& figure : figures) {
        Json list = Json::array();
        for (size_t i = 0; i < curves.size(); ++i) {
          const auto column = curves[i]->columns.find(figure);
          const double value = column == curves[i]->columns.end() ? NAN : column->second[rows[i][step]];
          list.push_back(std::isfinite(value) ? Json(value) : Json());
        }
        values[figure] = list;
      }
      out.push_back({{"stage", stage}, {"step", step}, {"figures", values}});
    }
  }
  return out;
}

std::string result_cell(const Json& row) {
  if (!row.is_object()) return "-";
  std::string text = fmt::format("{:.1f} %", 100 * row.value("pass_at_1", 0.0));
  const Json interval = row.value("ci95", Json::array());
  if (interval.size() == 2)
    text += fmt::format(" [{:.1f}, {:.1f}]", 100 * interval[0].get<double>(), 100 * interval[1].get<double>());
  return text;
}

std::string cell(const Json& value) {
  if (value.is_number()) return fmt::format("{:.4g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : "-";
}

// Columns as wide as what is in them, two spaces apart.
std::string table(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) row += fmt::format("{:<{}}  ", line[i], widths[i]);
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

std::vector<std::string> head(const std::string& title, const Json& names) {
  std::vector<std::string> line{title};
  for (const Json& name : names) line.push_back(name.get<std::string>());
  return line;
}

}  // namespace

Json compare_runs(const std::vector<const RunFolder*>& runs, const std::vector<std::string>& names) {
  TF_CHECK(!runs.empty() && runs.size() == names.size(), "{} runs with {} names", runs.size(), names.size());
  return {
      {"runs", names}, {"recipe", differing_keys(runs)}, {"results", results_of(runs)}, {"steps", equal_steps(runs)}};
}

std::string comparison_text(const Json& comparison) {
  const Json& names = comparison.at("runs");
  std::vector<std::vector<std::string>> lines{head("recipe", names)};
  for (const Json& key : comparison.at("recipe")) {
    auto& line = lines.emplace_back(std::vector{key.at("key").get<std::string>()});
    for (const Json& value : key.at("values")) line.push_back(cell(value));
  }
  std::string text = lines.size() > 1 ? table(lines) : "the recipes are alike\n";
  lines = {head("pass@1 [95 % interval]", names)};
  for (const Json& result : comparison.at("results")) {
    auto& line = lines.emplace_back(
        std::vector{fmt::format("{}, {} turn{}", result.at("label").get<std::string>(), result.at("turns").dump(),
                                result.at("turns") == 1 ? "" : "s")});
    for (const Json& row : result.at("rows")) line.push_back(result_cell(row));
  }
  if (lines.size() > 1) text += "\n" + table(lines);
  std::string stage;
  for (const Json& at : comparison.at("steps")) {
    if (at.at("stage") != stage) {
      stage = at.at("stage").get<std::string>();
      text += "\n" + stage + ", at steps that all of them have (--json has every figure)\n";
    }
    lines = {head(fmt::format("step {}", at.at("step").dump()), names)};
    for (const char* figure : kShown) {
      const Json values = at.at("figures").value(figure, Json::array());
      if (std::none_of(values.begin(), values.end(), [](const Json& value) { return value.is_number(); })) continue;
      auto& line = lines.emplace_back(std::vector<std::string>{fmt::format("  {}", figure)});
      for (const Json& value : values) line.push_back(cell(value));
    }
    text += table(lines);
  }
  return text;
}

}  // namespace tritonforge::dashboard
