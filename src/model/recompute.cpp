#include "model/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tritonforge::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BlockHolder : torch::CustomClassHolder {
  explicit BlockHolder(BlockFn fn) : block(std::move(fn)) {}
  BlockFn block;
};

struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(AutogradContext* context, at::Tensor x, at::TensorList weights, BlockFn block) {
    // With gradients on, and the graph dropped at once: without them the model takes its inference kernels, whose last
    // bits differ from what the backward pass computes again.
    const at::AutoGradMode with_grad(true);
    at::Tensor y = block(x.detach()).detach();
    variable_list saved{x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    // The block lives exactly as long as the saved tensors: in the context, as a capsule.
    context->saved_data["block"] = c10::IValue::make_capsule(c10::make_intrusive<BlockHolder>(std::move(block)));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const variable_list saved = context->get_saved_variables();
    const auto holder = c10::static_intrusive_pointer_cast<BlockHolder>(context->saved_data["block"].toCapsule());
    const at::AutoGradMode with_grad(true);
    const at::Tensor x = saved[0].detach().requires_grad_(saved[0].requires_grad());
    const at::Tensor y = holder->block(x);
    variable_list inputs;
    std::vector<size_t> slots;
    for (size_t i = 0; i < saved.size(); ++i) {
      const at::Tensor& input = i == 0 ? x : saved[i];
      if (!input.requires_grad()) continue;
      inputs.push_back(input);
      slots.push_back(i);
    }
    const variable_list found = torch::autograd::grad({y}, inputs, {grad_outputs[0]});
    variable_list grads(saved.size() + 1);  // the last stands for `block`
    for (size_t i = 0; i < slots.size(); ++i) grads[slots[i]] = found[i];
    return grads;
  }
};

}  // namespace

at::Tensor recompute(const at::Tensor& x, const std::vector<at::Tensor>& weights, BlockFn block) {
  return Recompute::apply(x, at::TensorList(weights), std::move(block));
}

}  // namespace tritonforge::model
