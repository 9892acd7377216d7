#pragma once
// The matrix products of a layer and their gradients, queued on ATen's stream.

#include "kernels/gpu/handles.h"
#include "kernels/gpu/tensors.h"

namespace tritonforge::train::gpu {

using tritonforge::gpu::Bf16;
using tritonforge::gpu::bits;
using tritonforge::gpu::check_cuda;
using tritonforge::gpu::CudaApi;
using tritonforge::gpu::GemmArgs;
using tritonforge::gpu::GradientOut;

// ATen's current one as long as nobody sets another: kernels and ATen's operations follow each other.
constexpr tritonforge::gpu::Stream kStream = nullptr;

// Where the gradient of a weight goes.
inline GradientOut gradient_of(const at::Tensor& sum, bool accumulate) {
  return {.to = sum.mutable_data_ptr(), .fp32 = sum.scalar_type() == at::kFloat, .accumulate = accumulate};
}

constexpr int64_t kProductsWorkspace = int64_t{32} << 20;  // bytes

class Products {
 public:
  // Not deterministic: cuBLASLt's proposals and the own kernels are timed when a shape comes whose like has not come
  // before (gemm_tune), and the fastest is kept from then on: which one is not the same in every run.
  // Deterministic, on Hopper: products of the forward pass are those of an engine with batch_invariant, to the bit,
  // however sequences are packed; elsewhere they are the same in every run alone.
  Products(at::Device device, bool deterministic);

  // y [rows, out] = x [rows, in] w [out, in]^T (+ bias [out]) (+ addend [rows, out]; not y).
  void forward(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias = {},
               const at::Tensor& addend = {});
  // dx [rows, in] = dy [rows, out] w [out, in].
  void input_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& w);
  // dw [out, in] = dy [rows, out]^T x [rows, in], added to what is there where `accumulate`.
  void weight_gradient(const at::Tensor& dw, const at::Tensor& dy, const at::Tensor& x, bool accumulate);

 private:
  void run(const GemmArgs& args);

  const CudaApi& api_;
  const bool tune_, batch_invariant_;
  tritonforge::gpu::GemmHandle gemm_;
  at::Tensor workspace_;
};

}  // namespace tritonforge::train::gpu
