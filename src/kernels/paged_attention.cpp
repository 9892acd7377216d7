#include "kernels/paged_attention.h"

#include <sys/mman.h>

#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "base/error.h"
#include "kernels/cpu_kernels.h"
#include "kernels/fp8.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

int64_t padded(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

void run(const AttendArgs<float>& args) { cpu_kernels().attend_f32(args); }
void run(const AttendArgs<uint16_t>& args) { cpu_kernels().attend_bf16(args); }
void run(const AttendArgs<float, uint8_t>& args) { cpu_kernels().attend_f32_fp8(args); }
void run(const AttendArgs<uint16_t, uint8_t>& args) { cpu_kernels().attend_bf16_fp8(args); }

template <typename Element>
const Element* data_of(const at::Tensor& tensor) {
  return static_cast<const Element*>(tensor.const_data_ptr());
}

float widened(float x) { return x; }
float widened(uint16_t x) { return fp8::float_of(uint32_t{x} << 16); }

// A row of d numbers, encoded one by one to put(i, byte). Returns its scale.
template <typename Element, typename Put>
uint8_t encode_row(const Element* row, int64_t d, Put put) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < d; ++i) largest = std::max(largest, fp8::bits_of(widened(row[i])) & 0x7FFFFFFF);
  const uint32_t scale = fp8::scale_of(largest);
  const float inverse = fp8::inverse_of(scale);
  for (int64_t i = 0; i < d; ++i) put(i, static_cast<uint8_t>(fp8::encode(widened(row[i]) * inverse)));
  return static_cast<uint8_t>(scale);
}

template <typename Element>
void write_fp8(const PagedLayer& layer, const at::Tensor& k, const at::Tensor& v, const int64_t* slots) {
  const int64_t tokens = k.size(0), heads = k.size(1), d = k.size(2), wide = layer.values.size(3);
  auto *keys = static_cast<uint8_t*>(layer.keys.data_ptr()), *values = static_cast<uint8_t*>(layer.values.data_ptr()),
       *scales = static_cast<uint8_t*>(layer.scales.data_ptr());
  over_threads(tokens, std::max<int64_t>(1, 8192 / (heads * d)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t block = slots[t] / kPage, place = slots[t] % kPage;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t at = block * heads + h;
        uint8_t *key = keys + at * d * kPage + place, *value = values + (at * kPage + place) * wide,
                *scale = scales + at * 2 * kPage + place;
        scale[0] = encode_row(data_of<Element>(k) + (t * heads + h) * d, d,
                              [key](int64_t i, uint8_t byte) { key[i * kPage] = byte; });
        scale[kPage] = encode_row(data_of<Element>(v) + (t * heads + h) * d, d,
                                  [value](int64_t i, uint8_t byte) { value[i] = byte; });
      }
    }
  });
}

template <typename Element>
void write(const PagedLayer& layer, const at::Tensor& k, const at::Tensor& v, const int64_t* slots) {
  if (layer.scales.defined()) return write_fp8<Element>(layer, k, v, slots);
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

template <typename Element, typename Cached = Element>
void attend(const PagedLayer& layer, const at::Tensor& q, const at::Tensor& out, const at::Tensor& block_tables,
            const int64_t* sequence_of, const int64_t* positions, float scale) {
  const int64_t tokens = q.size(0), heads = q.size(1), d = q.size(2), kv_heads = layer.keys.size(1);
  const int64_t group = heads / kv_heads, wide = layer.values.size(3), width = block_tables.size(1);
  const auto* tables = block_tables.const_data_ptr<int32_t>();
  const auto* scales = layer.scales.defined() ? data_of<uint8_t>(layer.scales) : nullptr;
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
      run(AttendArgs<Element, Cached>{.query = data_of<Element>(q) + row,
                                      .out = static_cast<Element*>(out.data_ptr()) + row,
                                      .keys = data_of<Cached>(layer.keys) + h * d * kPage,
                                      .values = data_of<Cached>(layer.values) + h * kPage * wide,
                                      .key_block = kv_heads * d * kPage,
                                      .value_block = kv_heads * kPage * wide,
                                      .value_stride = wide,
                                      .blocks = tables + sequence_of[t] * width,
                                      .length = positions[t] + 1,
                                      .group = group,
                                      .head_dim = d,
                                      .scale = scale,
                                      .scratch = aligned,
                                      .scales = scales != nullptr ? scales + h * 2 * kPage : nullptr,
                                      .scale_block = scales != nullptr ? kv_heads * 2 * kPage : 0});
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

// ATen gathers no FP8.
at::Tensor of_blocks(const at::Tensor& x, const at::Tensor& blocks) {
  if (x.scalar_type() != at::kFloat8_e4m3fn) return x.index_select(0, blocks);
  return x.view(at::kByte).index_select(0, blocks).view(x.scalar_type()).to(at::kFloat);
}

void check_layer(const PagedLayer& layer, const at::Tensor& x) {
  const bool fits = layer.scales.defined() ? x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16
                                           : x.scalar_type() == layer.keys.scalar_type();
  TF_CHECK(fits && x.size(2) == layer.keys.size(2), "cache and tokens differ");
}

}  // namespace

PagedLayer make_paged_layer(int64_t blocks, int64_t kv_heads, int64_t head_dim, at::ScalarType dtype) {
  if (head_dim % 4 != 0)
    fail(ErrorKind::kUnsupported, "head_dim {}: the CPU attention needs a multiple of 4", head_dim);
  const bool fp8 = dtype == at::kFloat8_e4m3fn;
  if (dtype != at::kFloat && dtype != at::kBFloat16 && !fp8) {
    fail(ErrorKind::kUnsupported, "dtype {}: the CPU attention knows float32, bfloat16 and float8_e4m3fn",
         c10::toString(dtype));
  }
  // Zeros: the vectors of a partly filled block read what nobody wrote, and must find numbers.
  return {lazy_zeros({blocks, kv_heads, head_dim, kPage}, dtype),
          lazy_zeros({blocks, kv_heads, kPage, padded(head_dim)}, dtype),
          fp8 ? lazy_zeros({blocks, kv_heads, 2, kPage}, at::kByte) : at::Tensor()};
}

void paged_write(const PagedLayer& layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slots) {
  check_layer(layer, k);
  const at::Tensor keys = k.contiguous(), values = v.contiguous();
  const int64_t* to = slots.const_data_ptr<int64_t>();
  k.scalar_type() == at::kFloat ? write<float>(layer, keys, values, to) : write<uint16_t>(layer, keys, values, to);
}

at::Tensor fp8_rounded(const at::Tensor& x) {
  const at::Tensor in = x.to(at::kFloat).contiguous(), out = at::empty_like(in);
  const int64_t d = x.size(-1);
  for (int64_t row = 0; row < in.numel() / d; ++row) {
    auto* to = out.data_ptr<float>() + row * d;
    const uint8_t scale = encode_row(in.const_data_ptr<float>() + row * d, d,
                                     [to](int64_t i, uint8_t byte) { to[i] = fp8::decode(byte); });
    for (int64_t i = 0; i < d; ++i) to[i] *= fp8::factor_of(scale);
  }
  return out.to(x.scalar_type());
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
  const auto compute = [&](auto attend_as) {
    attend_as(layer, query, out, block_tables, sequences, at, static_cast<float>(scale));
  };
  const bool fp8 = layer.scales.defined();
  if (q.scalar_type() == at::kFloat) compute(fp8 ? attend<float, uint8_t> : attend<float>);
  else compute(fp8 ? attend<uint16_t, uint8_t> : attend<uint16_t>);
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
    at::Tensor keys = flat(of_blocks(layer.keys, blocks).permute({0, 3, 1, 2}));
    at::Tensor values = flat(of_blocks(layer.values, blocks).slice(3, 0, d).permute({0, 2, 1, 3}));
    if (layer.scales.defined()) {
      const at::Tensor factors = at::exp2(layer.scales.index_select(0, blocks).to(at::kDouble) - 127);
      const auto of_rows = [&](int64_t which) {  // [length, kv_heads, 1]
        return factors.select(2, which).transpose(1, 2).reshape({-1, kv_heads, 1}).slice(0, 0, length);
      };
      keys = keys * of_rows(0);
      values = values * of_rows(1);
    }
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t g = h / (heads / kv_heads);
      const at::Tensor scores = at::mv(keys.select(1, g), q[t][h].to(at::kDouble)) * scale;
      out[t][h].copy_(at::mv(values.select(1, g).t(), at::softmax(scores, 0)));
    }
  }
  return out.to(q.scalar_type());
}

}  // namespace tritonforge::kernels
