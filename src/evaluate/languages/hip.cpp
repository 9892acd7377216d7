// HIP C++ for gfx942, compiled by clang.
#include "evaluate/languages/languages.h"

namespace tritonforge::evaluate {
namespace {

class Hip : public Language {
 public:
  Backend backend() const override { return Backend::kHip; }
  std::string_view kernel() const override { return "__global__ kernel"; }
  std::vector<std::string> targets(const std::vector<Target>&, std::string_view) const override {
    return {std::string(name_of(Target::kGfx942))};
  }
  Runs runs(std::string_view) const override { return Runs::kNowhere; }
  std::string_view runs_on() const override { return "an AMD GPU, which this evaluator does not drive"; }
};

}  // namespace

const Language& hip_language() {
  static const Hip language;
  return language;
}

}  // namespace tritonforge::evaluate
