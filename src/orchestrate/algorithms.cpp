#include "orchestrate/algorithms.h"

#include <utility>

#include "base/error.h"

namespace tritonforge::orchestrate {
namespace {

// clang-format off
constexpr std::pair<const char*, const char*> kAlgorithms[] = {
    {"custom", "{}"},
    {"grpo", "{rollout: {advantage: grpo}, rl: {train: {loss: "
             "{clip_low: 0.2, clip_high: 0.2, aggregation: seq-mean-token-mean, kl_coef: 0.04, kl_type: k3}}}}"},
    {"dr_grpo", "{rollout: {advantage: grpo_nostd}, rl: {train: {loss: "
                "{clip_low: 0.2, clip_high: 0.2, aggregation: constant}}}}"},
    {"rloo", "{rollout: {advantage: rloo}, rl: {train: {loss: {aggregation: seq-mean-token-sum}}}}"},
    {"reinforce++", "{rollout: {advantage: none}, rl: {train: {loss: "
                    "{clip_low: 0.2, clip_high: 0.2, normalize_advantages: true, kl_type: k1}}}}"},
    {"reinforce++_baseline", "{rollout: {advantage: grpo_nostd}, rl: {train: {loss: "
                             "{clip_low: 0.2, clip_high: 0.2, normalize_advantages: true, kl_type: k2}}}}"},
    {"gspo", "{rollout: {advantage: grpo}, rl: {train: {loss: "
             "{objective: gspo, clip_low: 3.0e-4, clip_high: 4.0e-4, aggregation: seq-mean-token-mean}}}}"},
    {"cispo", "{rollout: {advantage: grpo}, rl: {train: {loss: {objective: cispo, clip_low: 1.0}}}}"},
    {"dapo", "{rollout: {advantage: grpo, overlong: penalty}, rl: {refills: 4, train: {loss: "
             "{clip_low: 0.2, clip_high: 0.28, aggregation: token-mean}}}}"},
};
// clang-format on

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const auto& entry : kAlgorithms) names.emplace_back(entry.first);
  return names;
}

YAML::Node algorithm_keys(const std::string& name) {
  for (const auto& [known, keys] : kAlgorithms) {
    if (known == name) return YAML::Load(keys);
  }
  fail(ErrorKind::kUsage, "'rl.algorithm': unknown value '{}'{}", name, nearest_hint(name, algorithm_names()));
}

}  // namespace tritonforge::orchestrate
