#include "evaluate/plan/gpu_gate.h"

#include <atomic>

namespace tritonforge::evaluate {

GpuGate::GpuGate(std::span<const std::byte> cubin)
    : kernel_(cubin, {.entry = "gate", .block = {1, 1, 1}, .own_parameters = 0}),
      word_(at::zeros({1}, at::TensorOptions().dtype(at::kInt).pinned_memory(true))) {}

GpuGate::Closed::Closed(GpuGate& gate, double most_s) : gate_(gate) {
  const void* word = gate.word_.const_data_ptr();
  int32_t ticket = ++gate.ticket_;
  auto most_ns = static_cast<uint64_t>(1e9 * most_s);
  std::vector<void*> arguments{&word, &ticket, &most_ns};
  gate.kernel_.launch({1, 1, 1}, arguments);
}

GpuGate::Closed::~Closed() {
  std::atomic_ref(*gate_.word_.mutable_data_ptr<int32_t>()).store(gate_.ticket_, std::memory_order_release);
}

}  // namespace tritonforge::evaluate
