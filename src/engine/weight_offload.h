#pragma once
// The weights of an engine that sleeps: their device memory is given back, their content waits in host memory.
#include <ATen/ATen.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/gpu/handles.h"
#include "model/model.h"

namespace tritonforge::engine {

class WeightOffload {
 public:
  // Refers to the models, of each rank of the engine one.
  explicit WeightOffload(const std::vector<std::unique_ptr<model::Model>>& ranks);
  bool offloaded() const { return offloaded_; }
  // Copies the weights to pinned host memory, which is kept for the next time, and gives their own back. On the CPU
  // they lie in host memory anyway and are only taken out of the model: nothing can use them meanwhile. Nothing may be
  // queued on the device. Where the host has no memory it throws and the weights stay.
  void offload();
  // The same weights again, perhaps at other addresses. Where the device has no memory it throws and they stay away.
  void reload();
  // Other memory for other weights: `install` writes all of them. Where it throws, the old ones stay away, whole.
  void replace(const std::function<void()>& install);

 private:
  struct Kept {
    model::Model& model;
    std::optional<gpu::PinnedMemory> pinned;
    at::Tensor host;    // the arena's content where the model is on a device
    c10::DataPtr here;  // the arena itself where it is on the CPU
    void copy_out();
    void take_memory();
    void give_back();
  };
  std::deque<Kept> kept_;
  bool offloaded_ = false;
};

}  // namespace tritonforge::engine
