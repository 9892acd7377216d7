#pragma once
// The runner of CUDA devices: the kernels of kernels/gpu on a stream of its own, over the model's own weights. Dense
// Qwen2, Qwen3 and alike in bfloat16. Nothing is allocated while it runs, and nothing waits but draw().
//
// As a rank of several (gpu_ranks.h) it has a part of the heads, of the MLP and of the vocabulary: what the ranks add
// to the residual stream is summed by the kernel that norms it, each reading the others' memory, and each rank draws
// from the logits of all. So a decode is one launch on each GPU.
//
// A step is one copy of its numbers to the device, the layers, the draws and one copy of the tokens back into pinned
// memory. Decodes, and a short prompt alone, are one CUDA graph from the third of their size class on: it is captured
// while the device computes the second. A token that the host has not read yet is picked up on the device, so a step
// may be queued while the one before runs.
//
// Where more is asked of a step's logits than draws, ATen's operations read and edit them in place (logit_work.h), as
// on the CPU, and forward() waits for them: its graph ends with the logits, and the draws are launched behind the
// edits. A step that scores a prompt is launched kernel by kernel.
//
// With batch_invariant a row's bits are the same in every batch: each kernel sums in an order that does not depend on
// the rows beside it. Products are the own tiles with k in one part, a decode's attention is that of a prompt's last
// token, with no shares of its keys and no prefix read for several, and the log-prob of a drawn token is the trainer's
// head_scores().
#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/gpu_batch.h"
#include "engine/gpu_buffers.h"
#include "engine/gpu_ranks.h"
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
  // Bytes on the device beside weights, cache and buffers: what its graphs may take, and the code of kernels.
  static int64_t graph_bytes(const EngineOptions& options, const model::ModelConfig& config);

  // Refers to the model, which outlives it, and to `ranks`, where the model is the part of one. refusal() was empty.
  GpuRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model, GpuRanks* ranks = nullptr,
            int64_t rank = 0);
  ~GpuRunner() override;
  void move_blocks(std::span<const BlockMove> moves) override;
  void fill(const Plan& plan, std::span<const kernels::SampleRow> rows) override;
  void ask(const Plan& plan, const LogitWork& work) override;
  const LogitAnswers& answers() const override { return answers_; }
  void forward() override;
  std::span<const kernels::Sampled> draw() override;
  void discard() override;
  bool runs_ahead() const override { return true; }
  GraphLaunches graph_launches() const override { return launches_; }
  void take_memory() override;
  void release_memory() override;
  bool has_memory() const override { return !cache_.empty(); }
  void weights_move() override;

 private:
  struct PageBytes {  // of a block in one layer: its keys, as much as its values; its scales
    int64_t keys, scales;
    int64_t both() const { return 2 * keys + scales; }
  };
  static PageBytes page_bytes(const model::ModelConfig& config, bool fp8);
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
  struct Queued {
    Drawn* drawn;  // null: a step without draws
    bool asked;    // something is asked of its logits
  };
  struct Asked {  // of the step that is filled in
    const LogitWork* work = nullptr;
    std::vector<kernels::SampleRow> rows;
    std::vector<int64_t> prompts;  // the first row of each of the work's
    LogitAnswers answers;          // of prompts
    bool any() const { return work != nullptr; }
    bool scores_prompts() const { return !prompts.empty(); }
  };
  // What it computes, and whether its graph ends with the logits.
  using GraphKey = std::pair<GpuBatch::Shape, bool>;
  struct Captured {
    gpu::GpuGraph graph;  // none: the shape was seen once
    uint64_t used = 0;    // the step that ran it last
  };
  struct Rows {  // with which a layer goes on behind its attention
    int64_t count;
    gpu::Bf16* x;               // the residual stream [count, hidden]
    const gpu::Bf16* attended;  // [count, heads * head_dim]
  };
  template <typename T = gpu::Bf16>
  T* at(int64_t place) const {  // of GpuBuffers
    return reinterpret_cast<T*>(memory_.as<std::byte>() + place);
  }
  template <typename T>
  T* input(int64_t place) const {  // of GpuBatch
    return at<T>(buffers_.inputs + kNumberBytes + place);
  }
  // gpu_memory.cpp, with move_blocks() and all that takes memory and gives it back
  void take_buffers();
  void take_cache();
  void tune_at_start(int64_t most_rows);
  void tune_layers(int64_t rows, bool decodes, size_t count);
  void tune_head(int64_t rows);
  Captured* seen_before();  // null: its shape is new
  void capture(Captured& shape);
  void launch(const gpu::GpuGraph& graph);
  void queue_step();
  void queue_layers();
  Rows last_rows();
  void queue_attention(size_t layer);
  gpu::PrefillAttentionArgs prefill_args(size_t layer, float scale) const;
  void queue_prompt_attention(size_t layer, float scale);
  void widen_prompts(size_t layer, int64_t first, int64_t count);
  void queue_decode_attention(size_t layer, float scale);
  void queue_decodes_as_prompts(size_t layer, float scale);
  void queue_logits();
  void queue_samples();
  void queue_scores();
  // gpu_asked.cpp
  void score_prompts();
  void edit_and_draw();
  at::Tensor logits(int64_t rows) const;
  void project(void* y, const gpu::Bf16* x, const model::Projection& projection, int64_t rows, bool fp32 = false);
  // What attention (0) or the MLP (1) of a layer adds to the residual stream, and the norm of the sum.
  void join(size_t layer, int which, const Rows& rows, const gpu::Bf16* y, const model::Projection& projection,
            const at::Tensor& norm);
  void embed();
  bool adds_to_residual(int64_t rows, bool decodes) const;
  void project_logits(const gpu::Bf16* hidden, int64_t rows, uint32_t later);
  int64_t scored_rows() const;  // at most at once
  int64_t pieces_of(const LogitWork::Prompt& prompt) const;
  gpu::RankMeeting meeting(int64_t place, uint32_t later = 0) const;
  gpu::GemmArgs product(void* y, const gpu::Bf16* x, const model::Projection& projection, int64_t rows,
                        bool fp32 = false) const;
  gpu::GemmArgs joining_product(int which, const Rows& rows, const gpu::Bf16* y, model::Projection projection,
                                bool adds) const;
  gpu::GemmArgs gate_up_product(const model::LayerWeights& layer, int64_t rows) const;  // and SwiGLU

  const gpu::CudaApi& api_;
  const model::Model& model_;
  const model::ModelConfig& config_;
  const int device_;
  GpuRanks* const ranks_;  // null: alone
  const int64_t rank_, vocab_;
  bool graphs_wanted_;
  const bool tune_wanted_, batch_invariant_;
  const PrefixSharing sharing_;
  const int64_t full_step_;   // tokens, padded
  const int64_t most_draws_;  // rows of logits
  const int64_t blocks_, max_context_;
  const PageBytes page_;
  const int64_t widened_pages_;  // 0: the cache is bf16
  const GpuBuffers buffers_;
  gpu::GpuStream stream_;
  gpu::GemmHandle gemm_;
  const gpu::PinnedMemory host_cache_;  // the places of blocks that have left the cache

  // Inputs: written on the host in turn, copied to the one place where the kernels look.
  std::deque<HostArena> host_;
  size_t host_turn_ = 0;
  GpuBatch batch_;

  // What it has on the device. Graphs know addresses of all of it and of the weights.
  gpu::DeviceMemory memory_, cache_memory_;
  std::vector<gpu::KvLayer> cache_;
  gpu::KvLayer widened_;  // of the prompts under way, where the cache is FP8
  std::map<GraphKey, Captured> graphs_;
  uint64_t steps_ = 0;
  uint32_t number_ = 0, met_later_ = 0;  // of the step; meetings of the logits under it, but for the draws'
  GraphLaunches launches_;

  std::deque<Drawn> ring_;        // pinned results, used in turn
  std::deque<Queued> in_flight_;  // oldest first
  size_t drawn_turn_ = 0;
  std::vector<kernels::Sampled> sampled_;
  Asked asked_;
  LogitAnswers answers_;
};

}  // namespace tritonforge::engine
