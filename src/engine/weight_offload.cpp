#include "engine/weight_offload.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "kernels/device.h"

namespace tritonforge::engine {

void WeightOffload::offload(model::Model& model) {
  const at::Tensor& arena = model.arena();
  if (!arena.is_cpu()) {
    if (!host_.defined() && kernels::has_gpu_kernels()) {
      gpu::check_cuda(gpu::open_cuda_library().set_device(arena.device().index()));
      pinned_.emplace(arena.nbytes());
      host_ = at::from_blob(pinned_->as<void>(), arena.sizes(), arena.options().device(at::kCPU));
    } else if (!host_.defined()) {
      host_ = at::empty(arena.sizes(), arena.options().device(at::kCPU));
    }
    host_.copy_(arena);
  }
  give_back(model);
  offloaded_ = true;
}

void WeightOffload::reload(model::Model& model) {
  replace(model, [&] {
    if (host_.defined()) at::Tensor(model.arena()).copy_(host_);
  });
}

void WeightOffload::replace(model::Model& model, const std::function<void()>& install) {
  take_memory(model);
  try {
    install();
  } catch (...) {
    give_back(model);  // the old ones stay away
    throw;
  }
  offloaded_ = false;
}

void WeightOffload::take_memory(model::Model& model) {
  if (kept_) return model.put_arena(std::move(kept_));
  const at::Tensor fresh = at::empty(model.arena().sizes(), model.arena().options());
  model.put_arena(fresh.storage().set_data_ptr(c10::DataPtr(nullptr, fresh.device())));
}

void WeightOffload::give_back(model::Model& model) {
  c10::DataPtr memory = model.take_arena();
  if (model.device().is_cpu()) {
    kept_ = std::move(memory);
    return;
  }
  memory.clear();
  at::getDeviceAllocator(model.device().type())->emptyCache();
}

}  // namespace tritonforge::engine
