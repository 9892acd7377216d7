#include "engine/weight_offload.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <utility>

#include "kernels/device.h"

namespace tritonforge::engine {

WeightOffload::WeightOffload(const std::vector<std::unique_ptr<model::Model>>& ranks) {
  for (const auto& model : ranks) kept_.push_back({*model, std::nullopt, {}, {}});
}

void WeightOffload::offload() {
  for (Kept& rank : kept_) rank.copy_out();
  for (Kept& rank : kept_) rank.give_back();
  offloaded_ = true;
}

void WeightOffload::reload() {
  const auto copy_back = [&] {
    for (Kept& rank : kept_) at::Tensor(rank.model.arena()).copy_(rank.host);
  };
  if (!kept_.front().here) return replace(copy_back);
  for (Kept& rank : kept_) rank.model.put_arena(std::exchange(rank.here, {}));
  offloaded_ = false;
}

void WeightOffload::replace(const std::function<void()>& install) {
  size_t taken = 0;
  try {
    for (; taken < kept_.size(); ++taken) kept_[taken].take_memory();
    install();
  } catch (...) {
    while (taken > 0) kept_[--taken].give_back();  // the old ones stay away
    throw;
  }
  for (Kept& rank : kept_) rank.here.clear();
  offloaded_ = false;
}

void WeightOffload::Kept::copy_out() {
  const at::Tensor& arena = model.arena();
  if (arena.is_cpu()) return;
  if (!host.defined() && kernels::has_gpu_kernels()) {
    gpu::check_cuda(gpu::open_cuda_library().set_device(arena.device().index()));
    pinned.emplace(arena.nbytes());
    host = at::from_blob(pinned->as<void>(), arena.sizes(), arena.options().device(at::kCPU));
  } else if (!host.defined()) {
    host = at::empty(arena.sizes(), arena.options().device(at::kCPU));
  }
  host.copy_(arena);
}

void WeightOffload::Kept::take_memory() {
  const at::Tensor fresh = at::empty(model.arena().sizes(), model.arena().options());
  model.put_arena(fresh.storage().set_data_ptr(c10::DataPtr(nullptr, fresh.device())));
}

void WeightOffload::Kept::give_back() {
  c10::DataPtr memory = model.take_arena();
  if (model.device().is_cpu()) {
    if (!here) here = std::move(memory);
    return;
  }
  memory.clear();
  at::getDeviceAllocator(model.device().type())->emptyCache();
}

}  // namespace tritonforge::engine
