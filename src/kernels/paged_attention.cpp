#include "kernels/paged_attention.h"

#include <sys/mman.h>

#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "base/error.h"
#include "kernels/cpu_kernels.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

int64_t padded(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

void run(const AttendArgs<float>& args) { cpu_kernels().attend_f32(args); }
void run(const AttendArgs<uint16_t>& args) { cpu_kernels().attend_bf16(args); }

template <typename Element>
const Element* data_of(const at::Tensor& tensor) {
  return static_cast<const Element*>(tensor.const_data_ptr());
}

template <typename Element>
void write(const PagedLayer& layer, const at::Tensor& k, const at::Tensor& v, const int64_t* slots) {
  const int64_t tokens = k.size(0), heads = k.size(1), d = k.size(2), wide = layer.values.size(3);
  const auto* key_from = data_of<Element>(k);
  const auto* value_from = data_of<Element>(v);
  auto* keys = static_cast<Element*>(layer.keys.data_ptr());
  auto* values = static_cast<Element*>(layer.values.data_ptr());
  over_threads(tokens, std::max<int64_t>(1, 32768 / (heads * d)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t block = slots[t] / kPage, place = slots[t] % kPage;
      for (int64_t h = 0; h < heads; ++h) {
        const Element* key = key_from + (t * heads + h) * d;
        Element* to = keys + (block * heads + h) * d * kPage + place;
        for (int64_t x = 0; x < d; ++x) to[x * kPage] = key[x];
        std::copy_n(value_from + (t * heads + h) * d, d, values + ((block * heads + h) * kPage + place) * wide);
      }
    }
  });
}

template <typename Element>
void attend(const PagedLayer& layer, const at::Tensor& q, const at::Tensor& out, const at::Tensor& block_tables,
            const int64_t* sequence_of, const int64_t* positions, float scale) {
  const int64_t tokens = q.size(0), heads = q.size(1), d = q.size(2), kv_heads = layer.keys.size(1);
  const int64_t group = heads / kv_heads, wide = layer.values.size(3), width = block_tables.size(1);
  const auto* tables = block_tables.const_data_ptr<int32_t>();
  int64_t longest = 0, work = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    if (sequence_of[t] < 0) continue;
    longest = std::max(longest, positions[t] + 1);
    work += (positions[t] + 1) * heads * d;
  }
  // A prompt's later tokens cost more than its first ones: tokens are dealt to the threads in turn.
  const int64_t threads = work < 20000 ? 1 : std::min<int64_t>(parallel_parts(), tokens * kv_heads);
  const auto share = [&](int64_t thread) {
    const auto floats = static_cast<size_t>(attend_scratch(group, d, longest) + 16);
    const std::unique_ptr<float[]> scratch(new float[floats]);
    auto* aligned = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch.get()) + 63) / 64 * 64);
    for (int64_t item = thread; item < tokens * kv_heads; item += threads) {
      const int64_t t = item / kv_heads, h = item % kv_heads;
      if (sequence_of[t] < 0) continue;
      const int64_t row = (t * heads + h * group) * d;
      run(AttendArgs<Element>{.query = data_of<Element>(q) + row,
                              .out = static_cast<Element*>(out.data_ptr()) + row,
                              .keys = data_of<Element>(layer.keys) + h * d * kPage,
                              .values = data_of<Element>(layer.values) + h * kPage * wide,
                              .key_block = kv_heads * d * kPage,
                              .value_block = kv_heads * kPage * wide,
                              .value_stride = wide,
                              .blocks = tables + sequence_of[t] * width,
                              .length = positions[t] + 1,
                              .group = group,
                              .head_dim = d,
                              .scale = scale,
                              .scratch = aligned});
    }
  };
  if (threads == 1) return share(0);
  over_threads(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) share(thread);
  });
}

// Zeros that the system gives page by page as they are touched; at::zeros writes all of them, seconds for a large
// cache. Blocks are read all over the cache: with pages of 4 KiB each would begin with a walk through the page tables.
at::Tensor lazy_zeros(at::IntArrayRef sizes, at::ScalarType dtype) {
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(dtype);
  if (bytes == 0) return at::zeros(sizes, dtype);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it, slower
#endif
  return at::from_blob(
      memory, sizes, [bytes](void* begin) { ::munmap(begin, bytes); }, at::TensorOptions().dtype(dtype));
}

void check_layer(const PagedLayer& layer, const at::Tensor& x) {
  TF_CHECK(x.scalar_type() == layer.keys.scalar_type() && x.size(2) == layer.keys.size(2), "cache and tokens differ");
}

}  // namespace

PagedLayer make_paged_layer(int64_t blocks, int64_t kv_heads, int64_t head_dim, at::ScalarType dtype) {
  if (head_dim % 4 != 0)
    fail(ErrorKind::kUnsupported, "head_dim {}: the CPU attention needs a multiple of 4", head_dim);
  if (dtype != at::kFloat && dtype != at::kBFloat16) {
    fail(ErrorKind::kUnsupported, "dtype {}: the CPU attention knows float32 and bfloat16", c10::toString(dtype));
  }
  // Zeros: the vectors of a partly filled block read what nobody wrote, and must find numbers.
  return {lazy_zeros({blocks, kv_heads, head_dim, kPage}, dtype),
          lazy_zeros({blocks, kv_heads, kPage, padded(head_dim)}, dtype)};
}

void paged_write(const PagedLayer& layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slots) {
  check_layer(layer, k);
  const at::Tensor keys = k.contiguous(), values = v.contiguous();
  const int64_t* to = slots.const_data_ptr<int64_t>();
  layer.keys.scalar_type() == at::kFloat ? write<float>(layer, keys, values, to)
                                         : write<uint16_t>(layer, keys, values, to);
}

at::Tensor paged_attention(const PagedLayer& layer, const at::Tensor& q, const at::Tensor& block_tables,
                           const at::Tensor& sequence_of, const at::Tensor& positions, double scale) {
  check_layer(layer, q);
  const at::Tensor query = q.contiguous();
  at::Tensor out = at::empty_like(query);
  const auto* sequences = sequence_of.const_data_ptr<int64_t>();
  for (int64_t t = 0; t < q.size(0); ++t) {
    if (sequences[t] < 0) out.select(0, t).zero_();
  }
  const auto* at = positions.const_data_ptr<int64_t>();
  if (q.scalar_type() == at::kFloat)
    attend<float>(layer, query, out, block_tables, sequences, at, static_cast<float>(scale));
  else attend<uint16_t>(layer, query, out, block_tables, sequences, at, static_cast<float>(scale));
  return out;
}

at::Tensor paged_attention_reference(const PagedLayer& layer, const at::Tensor& q, const at::Tensor& block_tables,
                                     const at::Tensor& sequence_of, const at::Tensor& positions, double scale) {
  const int64_t heads = q.size(1), d = q.size(2), kv_heads = layer.keys.size(1);
  at::Tensor out = at::zeros(q.sizes(), at::kDouble);
  for (int64_t t = 0; t < q.size(0); ++t) {
    const int64_t sequence = sequence_of[t].item<int64_t>(), length = positions[t].item<int64_t>() + 1;
    if (sequence < 0) continue;
    const at::Tensor blocks = block_tables[sequence].slice(0, 0, (length + kPage - 1) / kPage).to(at::kLong);
    const auto flat = [&](const at::Tensor& x) {
      return x.reshape({-1, kv_heads, d}).slice(0, 0, length).to(at::kDouble);
    };
    const at::Tensor keys = flat(layer.keys.index_select(0, blocks).permute({0, 3, 1, 2}));
    const at::Tensor values = flat(layer.values.index_select(0, blocks).slice(3, 0, d).permute({0, 2, 1, 3}));
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t g = h / (heads / kv_heads);
      const at::Tensor scores = at::mv(keys.select(1, g), q[t][h].to(at::kDouble)) * scale;
      out[t][h].copy_(at::mv(values.select(1, g).t(), at::softmax(scores, 0)));
    }
  }
  return out.to(q.scalar_type());
}

}  // namespace tritonforge::kernels
