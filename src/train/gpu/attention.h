#pragma once
// Causal attention of packed sequences and its gradient, each sequence for itself, on Hopper. The forward kernel is the
// engine's: keys and values lie in pages, each sequence's one behind another. In a ring (train/ring.h) the pages of a
// sequence are as many and the same ones on every rank, so that those of another rank are used as they come. A segment
// that goes on from others has their pages before its own: it begins where a page does.
#include "model/config.h"
#include "train/gpu/products.h"
#include "train/ring.h"

namespace tritonforge::train::gpu {

class Attention {
 public:
  // config: of the heads that are computed here.
  Attention(const model::ModelConfig& config, at::Device device);

  // Which tokens the rank has in the passes that follow, and its rows with padding. parents, before: of the sequences,
  // where some go on from others (MicroBatch).
  void begin(const Zigzag& zigzag, int64_t rank, int64_t rows, std::vector<int64_t> parents = {},
             std::vector<int64_t> before = {});
  int64_t slots() const { return pages_ * tritonforge::gpu::kPage; }  // tokens that their pages hold
  const int32_t* slots_of_tokens() const { return number(slot_numbers_); }

  // q, out [>= tokens, heads * head_dim]; keys, values [>= slots(), kv_heads * head_dim] in pages; statistics
  // [>= tokens, heads] fp32: what backward() needs.
  struct Operands {
    at::Tensor q, keys, values, out, statistics;
  };
  // Over the keys of rank `from`: causal over the rank's own; of another one's each query sees all that its span has
  // (Zigzag::spans), and where a query has none, its row of out and statistics is left as it is.
  void forward(const Operands& operands, int64_t from);
  // d_out, dq as q, dk and dv [>= tokens of `from`, kv_heads * head_dim]: the part of the gradients that these keys
  // have. Rows without a part are left as they are. Keys and values are finite in all of their pages.
  void backward(const Operands& operands, int64_t from, const at::Tensor& d_out, const at::Tensor& dq,
                const at::Tensor& dk, const at::Tensor& dv);

 private:
  // A place in numbers_, of so many int32.
  struct Numbers {
    int64_t begin;
  };
  // What the kernels read about queries and the keys of one rank.
  struct Keys {
    bool full = false;
    int64_t sequences = 0, longest = 0, items = 0, tiles = 0;
    Numbers starts{}, lengths{}, tables{}, item_list{}, tile_list{};
  };
  class Writer;
  Keys write(Writer& writer, const std::vector<Zigzag::Span>& spans, bool full) const;
  std::vector<int32_t> table_of(size_t sequence) const;
  std::vector<tritonforge::gpu::AttentionBackwardItem> items_of(const std::vector<Zigzag::Span>& spans,
                                                                bool full) const;
  const int32_t* number(Numbers at) const { return numbers_.const_data_ptr<int32_t>() + at.begin; }

  const CudaApi& api_;
  const int64_t heads_, kv_heads_, head_dim_;
  const float scale_;
  const at::Device device_;
  int64_t tokens_ = 0, pages_ = 0, table_width_ = 0;
  std::vector<int32_t> first_pages_;       // of each sequence
  std::vector<int64_t> parents_, before_;  // likewise
  std::vector<Keys> keys_;                 // of each rank
  at::Tensor numbers_;                     // all that is read on the device, one copy a micro-batch
  Numbers slot_numbers_{};
  at::Tensor counters_, workspace_;  // of the forward kernel, of the backward ones
};

}  // namespace tritonforge::train::gpu
