#pragma once
// The runner of CUDA devices: the kernels of kernels/gpu on a stream of its own, over the model's own weights. Dense
// Qwen2, Qwen3 and alike in bfloat16. Nothing is allocated while it runs, and nothing waits but draw().
//
// A step is one copy of its numbers to the device, the layers, the draws and one copy of the tokens back into pinned
// memory. Decodes of a size class that was seen before are one CUDA graph. A token that the host has not read yet is
// picked up on the device, so a step may be queued while the one before runs.
#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/gpu_batch.h"
#include "engine/options.h"
#include "engine/runner.h"
#include "engine/sizing.h"
#include "kernels/gpu/handles.h"
#include "model/model.h"

namespace tritonforge::engine {

class GpuRunner : public Runner {
 public:
  // Why it cannot compute this model here, in one line; empty where it can.
  static std::string refusal(const EngineOptions& options, const model::Model& model);
  // Device memory beside the weights and the cache.
  static int64_t workspace_bytes(const EngineOptions& options, const Sizes& sizes, const model::ModelConfig& config);

  // Refers to the model, which outlives it. refusal() was empty.
  GpuRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model);
  ~GpuRunner() override;
  void fill(const Plan& plan, std::span<const kernels::SampleRow> rows) override;
  void forward() override;
  std::span<const kernels::Sampled> draw() override;
  void discard() override;
  bool runs_ahead() const override { return true; }
  void make_cache() override;
  void release_cache() override;
  bool has_cache() const override { return !cache_.empty(); }

 private:
  struct HostArena {
    explicit HostArena(size_t bytes) : memory(bytes) {}
    gpu::PinnedMemory memory;
    gpu::GpuEvent copied;
  };
  struct Drawn {  // the tokens of a step on their way to the host
    explicit Drawn(size_t rows) : memory(rows * 8) {}
    gpu::PinnedMemory memory;  // tokens [draw_rows] int32, log-probabilities [draw_rows] float
    gpu::GpuEvent arrived;
    int64_t rows = 0, draw_rows = 0;
  };
  template <typename T>
  T* input(int64_t at) const {
    return reinterpret_cast<T*>(arena_.as<std::byte>() + at);
  }
  void tune_at_start(int64_t most_rows);
  void tune_layers(int64_t rows);
  void tune_head(int64_t rows);
  const gpu::GpuGraph* graph_of_step();  // null: it must be queued
  void queue_step();
  void queue_layers();
  void queue_attention(size_t layer);
  void queue_decode_attention(size_t layer, float scale);
  void queue_draws();
  void project(void* y, const gpu::Bf16* x, const at::Tensor& weight, const at::Tensor& bias, int64_t rows,
               bool fp32 = false);
  gpu::GemmArgs product(void* y, const gpu::Bf16* x, const at::Tensor& weight, const at::Tensor& bias, int64_t rows,
                        bool fp32) const;

  const gpu::CudaApi& api_;
  const model::Model& model_;
  const model::ModelConfig& config_;
  const int device_;
  bool graphs_wanted_;
  const bool tune_wanted_;
  const PrefixSharing sharing_;
  const int64_t full_step_;  // tokens, padded
  const int64_t blocks_;
  gpu::GpuStream stream_;
  gpu::GemmHandle gemm_;

  // Inputs: written on the host in turn, copied to the one place where the kernels look.
  std::deque<HostArena> host_;
  size_t host_turn_ = 0;
  gpu::DeviceMemory arena_;
  GpuBatch batch_;

  // Activations of the largest step.
  gpu::DeviceMemory x_, normed_, delta_, qkv_, q_, attended_, gate_up_, activated_;
  gpu::DeviceMemory drawn_hidden_, logits_, results_;
  gpu::DeviceMemory attention_workspace_, prefill_workspace_, prefix_pieces_, sample_workspace_, rope_;
  std::vector<gpu::KvLayer> cache_;
  gpu::DeviceMemory cache_memory_;

  std::map<GpuBatch::Shape, gpu::GpuGraph> graphs_;  // empty: the shape was seen once
  std::deque<Drawn> ring_;                           // pinned results, used in turn
  std::deque<Drawn*> in_flight_;                     // oldest first
  size_t drawn_turn_ = 0;
  std::vector<kernels::Sampled> sampled_;
};

}  // namespace tritonforge::engine
