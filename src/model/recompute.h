#pragma once
// Activation recompute: a block whose activations are not kept but computed again in the backward pass.
#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace tritonforge::model {

using BlockFn = std::function<at::Tensor(const at::Tensor& x)>;

// block(x), keeping only x. `weights` are all the leaves that block reads; they and x get the gradients that they would
// get without recompute, bit by bit, as the block is deterministic. Nothing is recorded where none needs a gradient.
at::Tensor recompute(const at::Tensor& x, const std::vector<at::Tensor>& weights, BlockFn block);

}  // namespace tritonforge::model
