#include "dashboard/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tritonforge::dashboard {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double sum_of(const std::vector<double>& column) {
  double sum = 0;
  for (const double value : column) sum += std::isnan(value) ? 0 : value;
  return sum;
}

}  // namespace

void Curves::add(const Json& step) {
  const auto name = step.find("stage"), number = step.find("step");
  if (name == step.end() || !name->is_string() || number == step.end() || !number->is_number()) return;
  Stage& stage = stages_[name->get<std::string>()];
  const auto at = number->get<int64_t>();
  const auto known = std::find(stage.steps.rbegin(), stage.steps.rend(), at);
  const size_t row = known != stage.steps.rend() ? static_cast<size_t>(stage.steps.rend() - known) - 1
                                                 : stage.steps.size();
  if (row == stage.steps.size()) {
    stage.steps.push_back(at);
    for (auto& [key, column] : stage.columns) column.push_back(kNone);
  }
  for (const auto& [key, value] : step.items()) {
    if (key == "step" || !value.is_number()) continue;
    auto& column = stage.columns[key];
    column.resize(stage.steps.size(), kNone);
    column[row] = value.get<double>();
  }
  if (const auto warning = step.find("warning"); warning != step.end() && warning->is_string())
    stage.warnings.emplace_back(at, warning->get<std::string>());
  stage.last = step;
}

Json Curves::to_json(size_t most) const {
  Json out = Json::object();
  for (const auto& [name, stage] : stages_) {
    const size_t count = stage.steps.size(), every = std::max<size_t>(1, (count + most - 1) / most);
    std::vector<size_t> rows;
    for (size_t row = 0; row < count; row += every) rows.push_back(row);
    if (rows.back() != count - 1) rows.push_back(count - 1);
    const auto pick = [&](const auto& column) {
      Json values = Json::array();
      for (const size_t row : rows) values.push_back(column[row]);  // NaN is written as null
      return values;
    };
    Json figures = Json::object(), sums = Json::object(), warnings = Json::array();
    for (const auto& [key, column] : stage.columns) {
      figures[key] = pick(column);
      sums[key] = sum_of(column);
    }
    for (const auto& [step, text] : stage.warnings) warnings.push_back({step, text});
    out[name] = {
        {"every", every}, {"step", pick(stage.steps)}, {"warnings", warnings}, {"figures", figures}, {"sums", sums}};
  }
  return out;
}

}  // namespace tritonforge::dashboard
