#include "evaluate/plan/tunings.h"

#include <algorithm>
#include <set>

namespace tritonforge::evaluate {
namespace {

using Of = std::pair<int, int>;  // tuning, configuration; -1: of none

}  // namespace

Tunings::Tunings(const Plan& plan, const std::vector<std::string>& targets, const std::string& runs,
                 std::vector<Compiled>& compiled)
    : kernels_(plan.tunings.size()), tunings_(plan.tunings) {
  std::vector<std::set<Of>> users(plan.kernels.size());
  std::map<Of, std::set<size_t>> launched;
  for (const PlanStep& step : plan.steps) {
    if (step.kernel < 0) continue;
    const auto kernel = static_cast<size_t>(step.kernel);
    users[kernel].insert({step.tuning, step.configuration});
    launched[{step.tuning, step.configuration}].insert(kernel);
    if (step.tuning >= 0) kernels_[static_cast<size_t>(step.tuning)] = plan.kernels[kernel].name;
  }
  const bool any = std::find(targets.begin(), targets.end(), runs) == targets.end();
  std::set<Of> run;
  for (size_t g = 0; targets.empty() && g < tunings_.size(); ++g) {
    for (size_t c = 0; c < tunings_[g].configurations.size(); ++c)
      run.insert({static_cast<int>(g), static_cast<int>(c)});
  }
  for (size_t t = 0; t < targets.size(); ++t) {
    const auto of_kernel = [&](size_t kernel) -> Compiled& { return compiled.at(kernel * targets.size() + t); };
    std::set<Of> passed_over;
    for (size_t g = 0; g < tunings_.size(); ++g) {
      std::set<Of> skips;
      const size_t count = tunings_[g].configurations.size();
      for (size_t c = 0; c < count; ++c) {
        const Of of(static_cast<int>(g), static_cast<int>(c));
        const auto& own = launched[of];
        if (std::any_of(own.begin(), own.end(), [&](size_t kernel) { return of_kernel(kernel).tuner_skips; }))
          skips.insert(of);
        else if (any || targets[t] == runs) run.insert(of);
      }
      if (skips.size() < count) passed_over.merge(skips);
    }
    for (size_t kernel = 0; kernel < plan.kernels.size(); ++kernel) {
      Compiled& found = of_kernel(kernel);
      const auto& by = users[kernel];
      if (!found.tuner_skips || by.empty() ||
          !std::includes(passed_over.begin(), passed_over.end(), by.begin(), by.end()))
        continue;
      for (const Of& of : by)
        left_out_ += fmt::format("{}{} not for {}: {}", left_out_.empty() ? "" : "; ", name(of.first, of.second),
                                 targets[t], clipped(found.error, 120));
      found.error.clear();
    }
  }
  size_t most = 1;
  for (size_t g = 0; g < tunings_.size(); ++g) {
    std::vector<int>& usable = usable_.emplace_back();
    for (size_t c = tunings_[g].configurations.size(); c-- > 0;) {
      if (run.contains({static_cast<int>(g), static_cast<int>(c)})) usable.push_back(static_cast<int>(c));
    }
    // Where there is none, its kernels' errors stand.
    if (usable.empty()) usable.push_back(static_cast<int>(tunings_[g].configurations.size()) - 1);
    most = std::max(most, usable.size());
    if (const size_t more = tunings_[g].left_out; more > 0)
      left_out_ += fmt::format("{}{}: {} further configurations were not recorded", left_out_.empty() ? "" : "; ",
                               kernels_[g], more);
  }
  choices_.assign(most, {});
  for (size_t k = 0; k < most; ++k) {
    for (const auto& usable : usable_) choices_[k].push_back(usable[std::min(k, usable.size() - 1)]);
  }
}

std::string Tunings::name(int tuning, int configuration) const {
  const auto g = static_cast<size_t>(tuning);
  return fmt::format("{} ({})", kernels_[g], tunings_[g].configurations[static_cast<size_t>(configuration)]);
}

std::string Tunings::name(const Choice& choice) const {
  std::vector<std::string> names;
  for (size_t g = 0; g < choice.size(); ++g) {
    if (usable_[g].size() > 1) names.push_back(name(static_cast<int>(g), choice[g]));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace tritonforge::evaluate
