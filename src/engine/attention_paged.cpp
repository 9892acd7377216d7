#include "engine/attention_paged.h"

#include <cmath>

#include "base/error.h"
#include "kernels/cpu_kernels.h"

namespace tritonforge::engine {
namespace {

at::Tensor gather(const at::Tensor& layer, const at::Tensor& slots) {
  return layer.flatten(0, 1).index_select(0, slots);
}

// The batch as rectangles, for attention that knows nothing of ragged sequences. Two sequences, the first with 3 new
// tokens after 2 cached ones, the second with 1 after 3:
//
//   queries: rows of q            keys: slots of the context         mask [sequence, query, key]
//      i =  0  1  2                  j =  0  1  2  3  4
//   seq 0:  0  1  2               seq 0:  s0 s1 s2 s3 s4              1 1 1 0 0 / 1 1 1 1 0 / 1 1 1 1 1
//   seq 1:  3  3  3  (clamped)    seq 1:  t0 t1 t2 t3 t0 (its own)    1 1 1 1 0 (three times the same)
//
// back: for each row of q, where its result lies in the rectangle: 0 1 2 3.
struct Padded {
  at::Tensor query_rows;     // [sequences, longest_query]
  at::Tensor context_slots;  // [sequences, longest_context]
  at::Tensor mask;           // [sequences, 1, longest_query, longest_context] bool
  at::Tensor back;           // [tokens]
};
Padded padded_form(const Batch& b) {
  const at::Tensor q0 = b.query_starts.to(at::kLong), k0 = b.context_starts.to(at::kLong);
  const at::Tensor q_len = (q0.slice(0, 1) - q0.slice(0, 0, -1)).unsqueeze(1),
                   k_len = (k0.slice(0, 1) - k0.slice(0, 0, -1)).unsqueeze(1);
  const at::Tensor i = at::arange(b.longest_query, q0.options()).unsqueeze(0),
                   j = at::arange(b.longest_context, q0.options()).unsqueeze(0);
  Padded form;

  // Queries: beyond a sequence's last one, that one again.
  form.query_rows = (q0.slice(0, 0, -1).unsqueeze(1) + at::minimum(i, q_len - 1).clamp_min(0)).clamp_max(b.tokens - 1);

  // Keys: beyond a sequence's end its own first slot stands in: masked, and always holding numbers.
  const at::Tensor at = at::where(j < k_len, j, at::zeros_like(j));
  const at::Tensor in_block = at::floor_divide(at, b.block_size);
  form.context_slots = b.block_tables.to(at::kLong).gather(1, in_block) * b.block_size + at - in_block * b.block_size;

  // Mask: query i is the token at k_len - q_len + i. Key 0 is never masked, so that no row is empty.
  const at::Tensor last = (k_len - q_len).unsqueeze(2) + at::minimum(i, q_len - 1).unsqueeze(2);  // [s, q, 1]
  form.mask = ((j.unsqueeze(1) <= last) | (j.unsqueeze(1) == 0)).unsqueeze(1);                    // [s, 1, q, k]

  // The way back from the rectangle to the rows.
  const at::Tensor owner = b.sequence_of.clamp_min(0);
  const at::Tensor row = at::arange(b.sequence_of.size(0), q0.options()) - q0.index_select(0, owner);
  form.back = owner * b.longest_query + row.clamp_max(b.longest_query - 1);
  return form;
}

}  // namespace

KvCache::KvCache(const model::ModelConfig& config, int64_t blocks, int64_t block_size, at::ScalarType dtype,
                 at::Device device, KvLayout layout)
    : layout_(layout), block_size_(block_size), scale_(1.0 / std::sqrt(static_cast<double>(config.head_dim))) {
  TF_CHECK(layout == KvLayout::kRows || (device.is_cpu() && block_size == kernels::kPage),
           "the vector layout is the CPU's");
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (layout == KvLayout::kVector) {
      layers_.push_back(kernels::make_paged_layer(blocks, config.num_kv_heads, config.head_dim, dtype));
    } else {
      const std::vector<int64_t> shape{blocks, block_size, config.num_kv_heads, config.head_dim};
      layers_.push_back({at::zeros(shape, options), at::zeros(shape, options)});
    }
  }
}

void KvCache::copy_block(int64_t to, const KvCache& other, int64_t from) {
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const kernels::PagedLayer &own = layers_[layer], &its = other.layers_[layer];
    own.keys[to].copy_(its.keys[from]);
    own.values[to].copy_(its.values[from]);
    if (own.scales.defined()) own.scales[to].copy_(its.scales[from]);
  }
}

int64_t KvCache::bytes_per_token(const model::ModelConfig& config, at::ScalarType dtype) {
  const int64_t row = config.head_dim * static_cast<int64_t>(c10::elementSize(dtype)),
                scale = dtype == at::kFloat8_e4m3fn ? 1 : 0;
  return 2 * config.num_layers * config.num_kv_heads * (row + scale);
}

model::AttentionFn KvCache::attention(const Batch& batch) {
  return layout_ == KvLayout::kVector ? vector_attention(batch) : rows_attention(batch);
}

model::AttentionFn KvCache::vector_attention(const Batch& batch) {
  return [this, &batch](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    kernels::paged_write(layers_[layer], k, v, batch.slots);
    return kernels::paged_attention(layers_[layer], q, batch.block_tables, batch.sequence_of, batch.positions, scale_);
  };
}

model::AttentionFn KvCache::rows_attention(const Batch& batch) {
  const auto dtype = layers_[0].keys.scalar_type();
  const auto write = [this, &batch](int64_t layer, const at::Tensor& k, const at::Tensor& v) {
    layers_[layer].keys.flatten(0, 1).index_copy_(0, batch.slots, k);
    layers_[layer].values.flatten(0, 1).index_copy_(0, batch.slots, v);
  };
  if (layers_[0].keys.is_cuda() && (dtype == at::kBFloat16 || dtype == at::kHalf)) {
    return [this, &batch, write](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      write(layer, k, v);
      // Causal masks are aligned to the last key where a sequence has more keys than queries.
      return std::get<0>(at::_flash_attention_forward(q, gather(layers_[layer].keys, batch.context_slots),
                                                      gather(layers_[layer].values, batch.context_slots),
                                                      batch.query_starts, batch.context_starts, batch.longest_query,
                                                      batch.longest_context, 0.0, true, false, scale_));
    };
  }
  return [this, &batch, write, form = padded_form(batch)](int64_t layer, const at::Tensor& q, const at::Tensor& k,
                                                          const at::Tensor& v) {
    write(layer, k, v);
    const int64_t sequences = form.query_rows.size(0), group = q.size(1) / k.size(1);
    const auto context = [&](const at::Tensor& cache) {
      const at::Tensor rows = gather(cache, form.context_slots.flatten()).view({sequences, -1, k.size(1), k.size(2)});
      return rows.transpose(1, 2).repeat_interleave(group, 1);
    };
    const at::Tensor queries =
        q.index_select(0, form.query_rows.flatten()).view({sequences, -1, q.size(1), q.size(2)}).transpose(1, 2);
    const at::Tensor out = at::scaled_dot_product_attention(
        queries, context(layers_[layer].keys), context(layers_[layer].values), form.mask, 0.0, false, scale_);
    return out.transpose(1, 2).reshape({-1, q.size(1), q.size(2)}).index_select(0, form.back);
  };
}

}  // namespace tritonforge::engine
