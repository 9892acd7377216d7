#include "train/gpu/products.h"

#include "base/error.h"

namespace tritonforge::train::gpu {
namespace {

// Elements from one row to the next where there are gaps.
int64_t gaps(const at::Tensor& x) { return x.stride(0) == x.size(1) ? 0 : x.stride(0); }

}  // namespace

Products::Products(at::Device device, bool deterministic)
    : api_(tritonforge::gpu::open_cuda_library()),
      tune_(!deterministic),
      batch_invariant_(deterministic && tritonforge::gpu::no_hopper(device.index()).empty()),
      gemm_(static_cast<size_t>(kProductsWorkspace)),
      workspace_(at::empty({kProductsWorkspace}, at::TensorOptions().dtype(at::kByte).device(device))) {
  gemm_.use_workspace(workspace_.mutable_data_ptr());
}

void Products::run(const GemmArgs& args) {
  // A product that adds would add what timing it leaves behind, so it is cuBLASLt's first proposal. Tuned ones made no
  // step faster (docs/performance.md).
  if (tune_ && !args.accumulate) check_cuda(api_.gemm_tune(gemm_, &args, 1, kStream));
  check_cuda(api_.gemm(gemm_, &args, kStream));
}

void Products::forward(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                       const at::Tensor& addend) {
  GemmArgs args{.y = y.mutable_data_ptr(),
                .x = bits(x),
                .w = bits(w),
                .bias = bits(bias),
                .m = x.size(0),
                .n = w.size(0),
                .k = w.size(1),
                .fp32_out = y.scalar_type() == at::kFloat,
                .accumulate = addend.defined(),
                .addend = addend.defined() ? addend.const_data_ptr() : nullptr,
                .batch_invariant = batch_invariant_};
  if (batch_invariant_ && addend.defined()) {
    y.copy_(addend);
    args.addend = nullptr;
  }
  run(args);
}

void Products::input_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& w) {
  run({.y = dx.mutable_data_ptr(),
       .x = bits(dy),
       .w = bits(w),
       .m = dy.size(0),
       .n = w.size(1),
       .k = w.size(0),
       .w_transposed = true,
       .x_stride = gaps(dy)});
}

void Products::weight_gradient(const at::Tensor& dw, const at::Tensor& dy, const at::Tensor& x, bool accumulate) {
  run({.y = dw.mutable_data_ptr(),
       .x = bits(dy),
       .w = bits(x),
       .m = dw.size(0),
       .n = dw.size(1),
       .k = dy.size(0),
       .fp32_out = dw.scalar_type() == at::kFloat,
       .accumulate = accumulate,
       .x_transposed = true,
       .w_transposed = true,
       .x_stride = gaps(dy)});
}

}  // namespace tritonforge::train::gpu
