// OpenCL C, compiled and run by PoCL on the CPU.
#include "evaluate/languages/languages.h"

namespace tritonforge::evaluate {
namespace {

class OpenCl : public Language {
 public:
  Backend backend() const override { return Backend::kOpencl; }
  std::string_view kernel() const override { return "__kernel"; }
  std::vector<std::string> targets(const std::vector<Target>&, std::string_view) const override {
    return {std::string(kThisCpu)};
  }
  Runs runs(std::string_view device) const override { return device == kThisCpu ? Runs::kNatively : Runs::kNowhere; }
  bool converts_numbers() const override { return true; }
  std::string_view runs_on() const override { return "the CPU (--device cpu)"; }
};

}  // namespace

const Language& opencl_language() {
  static const OpenCl language;
  return language;
}

}  // namespace tritonforge::evaluate
