#pragma once
// The KV cache's tensors and the attention that Model::forward is given in the engine: it writes the new tokens' keys
// and values into their slots, then attends over each sequence's cache. All of a step's writes of a layer come before
// its reads, so sequences of one step may share blocks that the step itself fills.
#include <ATen/ATen.h>

#include <vector>

#include "engine/batch.h"
#include "kernels/paged_attention.h"
#include "model/model.h"

namespace tritonforge::engine {

// kVector: the CPU kernels' layout and code (kernels/paged_attention.h).
// kRows: [blocks, block_size, kv_heads, head_dim] each (FlashInfer's "NHD"); attention through ATen alone, on any
//   device: the context is gathered by block table, then variable-length flash attention (bf16 / fp16 on CUDA) or
//   masked SDPA. No host synchronisation: every length is known on the host.
enum class KvLayout { kVector, kRows };

class KvCache {
 public:
  // dtype: of the cache; float8_e4m3fn (kernels/fp8.h) is kVector's alone.
  KvCache(const model::ModelConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype, at::Device device,
          KvLayout layout);
  // Of all layers.
  static int64_t bytes_per_token(const model::ModelConfig& config, at::ScalarType dtype);
  // Of another cache of the same shape, on any device: its block `from` becomes this one's block `to`.
  void copy_block(int64_t to, const KvCache& other, int64_t from);
  // For one step; refers to the cache and to the batch's tensors.
  model::AttentionFn attention(const Batch& batch);

 private:
  model::AttentionFn vector_attention(const Batch& batch);
  model::AttentionFn rows_attention(const Batch& batch);
  std::vector<kernels::PagedLayer> layers_;
  KvLayout layout_;
  int64_t block_size_;
  double scale_;
};

}  // namespace tritonforge::engine
