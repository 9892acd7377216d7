// CUDA C++, compiled by NVRTC (a wheel of the project's own environment).
#include "evaluate/languages/languages.h"

namespace tritonforge::evaluate {
namespace {

class Cuda : public Language {
 public:
  Backend backend() const override { return Backend::kCuda; }
  std::string_view kernel() const override { return "__global__ kernel"; }
  std::vector<std::string> targets(const std::vector<Target>&, std::string_view device) const override {
    return {std::string(device == kThisCpu ? name_of(Target::kSm90) : device)};
  }
  Runs runs(std::string_view device) const override { return device == kThisCpu ? Runs::kNowhere : Runs::kOnGpu; }
  std::string_view runs_on() const override { return "an NVIDIA GPU (--device cuda:0)"; }
};

}  // namespace

const Language& cuda_language() {
  static const Cuda language;
  return language;
}

}  // namespace tritonforge::evaluate
