#include "evaluate/ir/module.h"
#include "evaluate/languages/languages.h"
#include "evaluate/runner.h"

namespace tritonforge::evaluate {
namespace {

class Triton : public Language {
 public:
  Backend backend() const override { return Backend::kTriton; }
  std::string_view kernel() const override { return "@triton.jit kernel"; }
  std::vector<std::string> targets(const std::vector<Target>& asked, std::string_view device) const override {
    std::vector<std::string> targets = names_of(asked);
    if (device != kThisCpu && std::find(targets.begin(), targets.end(), device) == targets.end())
      targets.emplace_back(device);
    return targets;
  }
  Runs runs(std::string_view device) const override { return device == kThisCpu ? Runs::kInterpreted : Runs::kOnGpu; }
  bool runs_in_the_candidates_process() const override { return true; }
  std::string source(const std::string& text) const override { return ir::without_locations(text); }
  bool cuts_to_tf32(std::string_view text) const override { return ir::cuts_to_tf32(text); }
  bool compiles_sources() const override { return false; }  // the front end has run where it is recorded
};

}  // namespace

const Language& triton_language() {
  static const Triton language;
  return language;
}

}  // namespace tritonforge::evaluate
