#pragma once
// The device that a process computes on. The binary links the CPU half of libtorch; the CUDA half is loaded where it is
// asked for.
#include <ATen/ATen.h>

#include <string>

namespace tritonforge::kernels {

// "cpu", "cuda", "cuda:1". Loads libtorch_cuda for the latter; throws kUsage for another name, kMachine naming what is
// missing. Call it before anything else touches ATen's CUDA side: ATen looks for that half only once. It is the current
// device of the calling thread from then on.
at::Device open_device(const std::string& name);
// Makes it the calling thread's current device, on which kernels run that no tensor guards. For every other thread that
// computes: CUDA begins each with the first GPU.
void use_device(at::Device device);
// auto: float32 on the CPU, bfloat16 elsewhere. Throws kUsage naming the nearest known one
// (float32, bfloat16, float16).
at::ScalarType parse_dtype(const std::string& name, at::Device device);
bool has_gpu_kernels();                  // whether libtritonforge_cuda.so opens here
int64_t free_memory(at::Device device);  // bytes
int64_t used_memory(
    at::Device device);  // bytes of a GPU that anybody has, or the most of the host's that this process had
void synchronize(at::Device device);  // waits for everything queued on it
// "cpu", or the GPU's UUID from the driver ("GPU-..."): the name under which processes share it.
std::string device_identity(at::Device device);

}  // namespace tritonforge::kernels
