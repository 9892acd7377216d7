#pragma once
// What every part of `kernels` measures with: Qwen3-8B's shapes, this card and its own rates, memory, a clock, a line.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>

#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"
#include "kernels/gpu/handles.h"

namespace tritonforge::bench {

using namespace gpu;  // NOLINT(google-build-using-namespace)

constexpr int64_t kHidden = 4096, kInter = 12288, kHeads = 32, kKvHeads = 8, kDim = 128, kVocab = 151936,
                  kQkv = (kHeads + 2 * kKvHeads) * kDim;

// Random bf16 numbers on the device, handed out in turn and from the start again when they end. Inputs and outputs come
// from two of them, so that inputs stay what they were.
class Arena {
 public:
  explicit Arena(int64_t bytes)
      : memory_(at::randn({bytes / 2}, at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA))) {}
  Bf16* take(int64_t elements) {
    elements = (elements + 127) / 128 * 128;
    if (at_ + elements > memory_.numel()) at_ = 0;
    at_ += elements;
    return static_cast<Bf16*>(memory_.data_ptr()) + at_ - elements;
  }

 private:
  at::Tensor memory_;
  int64_t at_ = 0;
};

struct Timing {
  double median, spread;  // seconds, (max - min) / median
};

// Of the card that is measured: a Card opens and closes them.
extern const CudaApi* api;
extern Stream stream;
extern Gemm* gemm;
extern std::unique_ptr<Arena> inputs, outputs;

class Card {
 public:
  Card();  // measures and says its own rates, of which each line tells the share
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

 private:
  at::Tensor gemm_workspace_;
};

// One of `launches` in a graph; or, without one, where ATen's operations run.
Timing timed(int launches, const std::function<void(int)>& launch);
Timing timed_on_legacy_stream(int launches, const std::function<void()>& run);
// Name, time, its rate of that of bytes and flops which takes the card longer, and the share of the card's own.
void line(const std::string& name, const Timing& t, double bytes, double flops, const std::string& note = "");

// A layer's cache of so many blocks. In FP8 random bytes, and scales of 1 that all layers share: a 64th of the bytes.
KvLayer cache_of(Arena& arena, int64_t blocks, bool fp8 = false);
at::Tensor device_ints(const at::Tensor& x);
inline const int32_t* ints(const at::Tensor& x) { return x.const_data_ptr<int32_t>(); }
// As many sets as exceed twice the largest L2 of today, at least 8 launches and at most 64.
int launches_for(int64_t bytes);

// The parts, each all its lines.
void measure_step();
void measure_fp8_steps();
void measure_fp8_products();
void measure_decode();
void measure_prefix();
void measure_gemm();
void measure_rows();
void measure_sample();
void measure_prefill();
void measure_blocks();
void measure_backward();
void measure_checksum();

}  // namespace tritonforge::bench
