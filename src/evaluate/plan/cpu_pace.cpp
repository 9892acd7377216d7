#include "evaluate/plan/cpu_pace.h"

namespace tritonforge::evaluate {
namespace {

constexpr size_t kWarmupPairs = 3;

double call_ms(Replayer& plan, const PaceRequest& request, Deadline deadline) {
  std::vector<at::Tensor> inputs;
  for (const TensorView& input : request.inputs) inputs.push_back(tensor_of(input));
  Pass pass = plan.begin(std::move(inputs), {.guard = false, .deadline = deadline});
  seed_torch(request.forward_seed, at::kCPU);
  const auto start = Clock::now();
  pass.run([](int) { return true; });
  return 1e3 * seconds_since(start);
}

}  // namespace

Pace pace(Replayer& candidate, Replayer& reference, const PaceRequest& request) {
  const Deadline deadline = Deadline::after(request.limit_s);
  Pace found;
  for (size_t k = 0; k < kWarmupPairs + request.pairs; ++k) {
    const double ours = call_ms(candidate, request, Deadline::after(3600));
    const double theirs = call_ms(reference, request, Deadline::after(3600));
    if (k >= kWarmupPairs) {
      found.candidate.push_back(ours);
      found.reference.push_back(theirs);
    }
    if (deadline.expired()) break;
  }
  return found;
}

}  // namespace tritonforge::evaluate
