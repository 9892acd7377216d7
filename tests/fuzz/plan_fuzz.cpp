// libs: tf_evaluate
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "evaluate/plan/plan.h"

// Any JSON is either a plan whose every number is in range, or refused with an error of ours.
int fuzz_one(const uint8_t* data, size_t size) {
  using namespace tritonforge;
  using namespace tritonforge::evaluate;
  const Json json = Json::parse(data, data + size, nullptr, false);
  if (json.is_discarded()) return 0;
  const std::string payload(64, 'x');
  try {
    const Plan plan = parse_plan(json, std::as_bytes(std::span(payload)));
    for (const PlanStep& step : plan.steps) {
      if (step.kernel >= static_cast<int>(plan.kernels.size())) return 1;
      if (step.kernel < 0 && !is_allowed(step.name)) return 1;
      if (step.tuning >= static_cast<int>(plan.tunings.size())) return 1;
      for (const int value : step.out) {
        if (value >= static_cast<int>(plan.values.size())) return 1;
      }
    }
    for (const PlanTuning& tuning : plan.tunings) {
      if (tuning.configurations.empty()) return 1;
    }
    // Whichever is chosen: what it uses is made by what it does.
    chosen_steps(plan.steps, plan.tunings, recorders_choice(plan));
    chosen_steps(plan.steps, plan.tunings, Choice(plan.tunings.size(), 0));
    for (const int value : plan.output_values) {
      if (value < 0 || value >= static_cast<int>(plan.values.size())) return 1;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"values":[{"dtype":"float32","shape":[4,8],"stride":[8,1],"input":0},{"dtype":"float32",)"
      R"("shape":[4,8],"stride":[8,1]},)"
      R"({"dtype":"float32","shape":[4],"stride":[1],"constant":0},{"dtype":"float32","shape":[2],)"
      R"("stride":[1],"weight":"w"}],)"
      R"("kernels":[{"name":"k","options":{"num_warps":4},"ir":{"sm_90":0},"errors":{"gfx942":"no"}}],"steps":[)"
      R"({"aten":"aten::empty_like","overload":"","args":[{"t":0}],"kwargs":{"dtype":{"dtype":"float32"}},"out":[1]},)"
      R"({"launch":0,"grid":[2,1,1],"args":[{"t":0},{"t":1},{"i":32},{"r":"inf"},{"null":true}]},)"
      R"({"aten":"aten::add_","overload":"Tensor","args":[{"t":1},[1,null,{"f":"0.5"}]],"kwargs":{},"out":[1]}],)"
      R"("outputs":{"tuple":[{"tensor":1},{"v":3}]},"inputs":1,"texts":[48],)"
      R"("constants":[{"dtype":"float32","shape":[4],"order":[0],"bytes":16}]})",
      R"({"values":[{"dtype":"float32","shape":[4],"stride":[1],"input":0},{"dtype":"float32","shape":[4],)"
      R"("stride":[1]}],"kernels":[{"name":"k","options":{},"ir":{"sm_90":0},"errors":{}},)"
      R"({"name":"k","options":{"num_warps":8},"ir":{"sm_90":0},"errors":{}}],)"
      R"("tunings":[{"configurations":["B 16","B 32"],"left_out":3}],"steps":[)"
      R"({"aten":"aten::empty_like","overload":"","args":[{"t":0}],"kwargs":{},"out":[1]},)"
      R"({"aten":"aten::zero_","overload":"","args":[{"t":1}],"kwargs":{},"out":[1],"of":[0,0]},)"
      R"({"launch":0,"grid":[2,1,1],"args":[{"t":0},{"t":1}],"of":[0,0]},)"
      R"({"launch":1,"grid":[1,1,1],"args":[{"t":0},{"t":1}],"of":[0,1]}],)"
      R"("outputs":{"tensor":1},"inputs":1,"texts":[48],"constants":[]})"};
}
