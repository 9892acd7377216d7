#include "rollout/prompt_languages.h"

namespace tritonforge::rollout {
namespace {

constexpr std::string_view kTriton = R"py(import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(a_ptr + offsets, mask=mask)
    b = tl.load(b_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, a + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        n = out.numel()
        add_kernel[(triton.cdiv(n, 1024),)](a, b, out, n, BLOCK=1024)
        return out
)py";

constexpr std::string_view kCuda = R"py(import torch
import torch.nn as nn

source = """
__global__ void add(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
"""
add_kernel = torch.cuda._compile_kernel(source, "add")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        n = out.numel()
        add_kernel(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), args=[a, b, out, n])
        return out
)py";

constexpr std::string_view kHip = R"py(import torch
import torch.nn as nn

source = """
#include <hip/hip_runtime.h>

extern "C" __global__ void __launch_bounds__(256) add(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
"""
add_kernel = torch.cuda._compile_kernel(source, "add")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        n = out.numel()
        add_kernel(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), args=[a, b, out, n])
        return out
)py";

constexpr std::string_view kOpenCl = R"py(import torch
import torch.nn as nn
import tritonforge_opencl

source = """
__kernel void add(__global const float* a, __global const float* b, __global float* out, int n) {
  int i = get_global_id(0);
  if (i < n) out[i] = a[i] + b[i];
}
"""
add_kernel = tritonforge_opencl.compile_kernel(source, "add")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        n = out.numel()
        add_kernel(global_size=((n + 255) // 256 * 256,), local_size=(256,), args=[a, b, out, n])
        return out
)py";

constexpr std::string_view kLaunchRules =
    " Compile kernels with torch.cuda._compile_kernel(source, name), where name may be a template's instance, and "
    "launch them as kernel(grid=(x, y, z), block=(x, y, z), args=[...], shared_mem=bytes). C++ code of the host "
    "(load_inline) is not accepted.";

constexpr std::string_view kHipRules =
    " The kernels are for gfx942: 64 lanes in a wavefront, 64 KiB of LDS in a block. Compile them with "
    "torch.cuda._compile_kernel(source, name) and launch them as kernel(grid=(x, y, z), block=(x, y, z), args=[...], "
    "shared_mem=bytes). C++ code of the host (load_inline) is not accepted.";

constexpr std::string_view kOpenClRules =
    " Compile kernels with tritonforge_opencl.compile_kernel(source, name, options=[...]) and launch them as "
    "kernel(global_size=(x, y, z), local_size=(x, y, z), args=[...]), where the first is in whole groups of the "
    "second; an argument is a tensor for __global memory, a number, or tritonforge_opencl.local_memory(bytes). They "
    "run on a CPU.";

constexpr PromptLanguage kPromptLanguages[] = {
    {.role = "You are an expert GPU programmer. You write Triton kernels that compute exactly what a PyTorch module "
             "computes, and compute it faster.",
     .kernels = "Triton kernels",
     .kernel = "a Triton kernel",
     .rules = "",
     .example = kTriton},
    {.role = "You are an expert GPU programmer. You write CUDA C++ kernels that compute exactly what a PyTorch module "
             "computes, and compute it faster.",
     .kernels = "CUDA C++ kernels",
     .kernel = "a CUDA C++ kernel",
     .rules = kLaunchRules,
     .example = kCuda},
    {.role = "You are an expert GPU programmer. You write HIP C++ kernels that compute exactly what a PyTorch module "
             "computes, and compute it faster.",
     .kernels = "HIP C++ kernels",
     .kernel = "a HIP C++ kernel",
     .rules = kHipRules,
     .example = kHip},
    {.role = "You are an expert in OpenCL. You write OpenCL C kernels that compute exactly what a PyTorch module "
             "computes, and compute it faster.",
     .kernels = "OpenCL C kernels",
     .kernel = "an OpenCL C kernel",
     .rules = kOpenClRules,
     .example = kOpenCl},
};
static_assert(std::size(kPromptLanguages) == names_of(Backend{}).size());

}  // namespace

const PromptLanguage& prompt_language(Backend backend) { return kPromptLanguages[static_cast<size_t>(backend)]; }

}  // namespace tritonforge::rollout
