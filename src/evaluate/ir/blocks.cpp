// Operations on whole blocks: shapes, reductions and scans, dot.
#include <algorithm>
#include <numeric>

#include "evaluate/ir/floats.h"
#include "evaluate/ir/machine.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir::run {
namespace {

int64_t product(const std::vector<int64_t>& shape, size_t from, size_t to) {
  int64_t out = 1;
  for (size_t i = from; i < to; ++i) out *= shape[i];
  return out;
}

// Calls `use` with a pointer type of the element's held size, so that copies are plain loops.
template <typename Use>
void by_size(int size, Use use) {
  switch (size) {
    case 1: return use(uint8_t{});
    case 2: return use(uint16_t{});
    case 4: return use(uint32_t{});
    default: return use(uint64_t{});
  }
}

template <typename T>
void fill(T* out, T value, int64_t n) {
  std::fill(out, out + n, value);
}

// out[k] = in[offset of k], where out is walked in row-major order and each of its dimensions advances `in` by a
// stride.
template <typename T>
void gather_strided(const T* in, T* out, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  const size_t rank = shape.size();
  if (rank == 0) {
    out[0] = in[0];
    return;
  }
  const int64_t inner = shape[rank - 1], step = strides[rank - 1];
  const int64_t rows = product(shape, 0, rank - 1);
  std::array<int64_t, 32> index{};
  int64_t offset = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = in + offset;
    if (step == 1) std::copy(from, from + inner, out);
    else if (step == 0) std::fill(out, out + inner, *from);
    else
      for (int64_t k = 0; k < inner; ++k) out[k] = from[k * step];
    out += inner;
    for (size_t d = rank - 1; d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  return strides;
}

// [outer, R, inner] -> [R, outer, inner], or back.
void to_front(const std::byte* in, std::byte* out, int size, int64_t outer, int64_t r, int64_t inner, bool back) {
  by_size(size, [&](auto sample) {
    using T = decltype(sample);
    const T* a = reinterpret_cast<const T*>(in);
    T* b = reinterpret_cast<T*>(out);
    if (outer == 1) {
      std::copy(a, a + r * inner, b);
      return;
    }
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t k = 0; k < r; ++k) {
        const int64_t wide = (o * r + k) * inner, front = (k * outer + o) * inner;
        if (back) std::copy(a + front, a + front + inner, b + wide);
        else std::copy(a + wide, a + wide + inner, b + front);
      }
    }
  });
}

}  // namespace

void constant(Machine& m, const Instruction& i) {
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    const auto& bits = i.detail->bits;
    T* out = m.at<T>(i.out[0]);
    for (int64_t k = 0; k < i.n; ++k) out[k] = static_cast<T>(bits[bits.size() == 1 ? 0 : static_cast<size_t>(k)]);
  });
}

void range(Machine& m, const Instruction& i) {
  int32_t* out = m.at<int32_t>(i.out[0]);
  std::iota(out, out + i.n, static_cast<int32_t>(i.detail->list[0]));
}

void spread(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    fill(m.at<T>(i.out[0]), *m.at<T>(i.in[0]), n);
  });
}

void program_id(Machine& m, const Instruction& i) {
  *m.at<int32_t>(i.out[0]) = static_cast<int32_t>(m.pid[static_cast<size_t>(i.detail->axis)]);
}
void num_programs(Machine& m, const Instruction& i) {
  *m.at<int32_t>(i.out[0]) = static_cast<int32_t>(m.options.grid[static_cast<size_t>(i.detail->axis)]);
}

void broadcast(Machine& m, const Instruction& i) {
  auto strides = row_major(i.detail->shape);
  for (size_t d = 0; d < strides.size(); ++d) {
    if (i.detail->shape[d] == 1 && i.detail->out_shape[d] != 1) strides[d] = 0;
  }
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    gather_strided(m.at<T>(i.in[0]), m.at<T>(i.out[0]), i.detail->out_shape, strides);
  });
}

void transpose(Machine& m, const Instruction& i) {
  const auto in_strides = row_major(i.detail->shape);
  std::vector<int64_t> strides;
  for (const int64_t d : i.detail->order) strides.push_back(in_strides[static_cast<size_t>(d)]);
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    gather_strided(m.at<T>(i.in[0]), m.at<T>(i.out[0]), i.detail->out_shape, strides);
  });
}

void join(Machine& m, const Instruction& i) {
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    const T* a = m.at<T>(i.in[0]);
    const T* b = m.at<T>(i.in[1]);
    T* out = m.at<T>(i.out[0]);
    for (int64_t k = 0; k < i.n / 2; ++k) out[2 * k] = a[k], out[2 * k + 1] = b[k];
  });
}

void split(Machine& m, const Instruction& i) {
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    const T* a = m.at<T>(i.in[0]);
    T* left = m.at<T>(i.out[0]);
    T* right = m.at<T>(i.out[1]);
    for (int64_t k = 0; k < i.n; ++k) left[k] = a[2 * k], right[k] = a[2 * k + 1];
  });
}

// Of its two halves; which comes first is the operation's.
void interleave(Machine& m, const Instruction& i) {
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    const T* in = m.at<T>(i.in[0]);
    T* out = m.at<T>(i.out[0]);
    const int64_t first = i.detail->list[0] * (i.n / 2), second = i.n / 2 - first;
    for (int64_t k = 0; k < i.n / 2; ++k) out[2 * k] = in[first + k], out[2 * k + 1] = in[second + k];
  });
}

void gather(Machine& m, const Instruction& i) {
  const auto& shape = i.detail->shape;  // of the source
  const auto& out_shape = i.detail->out_shape;
  const size_t axis = static_cast<size_t>(i.detail->axis);
  const int64_t outer = product(out_shape, 0, axis), rows = out_shape[axis],
                inner = product(out_shape, axis + 1, out_shape.size());
  const bool wide = i.detail->kinds[0] == Kind::kI64;
  by_size(held_size(i.out_kind), [&](auto sample) {
    using T = decltype(sample);
    const T* source = m.at<T>(i.in[0]);
    T* out = m.at<T>(i.out[0]);
    for (int64_t o = 0, k = 0; o < outer; ++o) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < inner; ++c, ++k) {
          const int64_t at = wide ? m.at<int64_t>(i.in[1])[k] : m.at<int32_t>(i.in[1])[k];
          if (at < 0 || at >= shape[axis]) m.fault(fmt::format("tt.gather: index {} of {}", at, shape[axis]));
          out[k] = source[(o * shape[axis] + at) * inner + c];
        }
      }
    }
  });
}

void histogram(Machine& m, const Instruction& i) {
  const int64_t count = i.detail->list[0];
  const int32_t* a = m.at<int32_t>(i.in[0]);
  const uint8_t* mask = i.in.size() > 1 ? m.at<uint8_t>(i.in[1]) : nullptr;
  int32_t* out = m.at<int32_t>(i.out[0]);
  fill(out, 0, i.n);
  for (int64_t k = 0; k < count; ++k) {
    if (mask && !mask[k]) continue;
    if (a[k] < 0 || a[k] >= i.n) m.fault(fmt::format("tt.histogram: value {} of {} bins", a[k], i.n));
    ++out[a[k]];
  }
}

// Combines halves, level by level: log2(R) runs of the region over all rows at once. Pairwise, so a float sum's error
// grows with log2(R). A GPU does the like across its lanes: what a reduction combines has no order, and an operation
// that is not commutative gives what it gives.
void reduce(Machine& m, const Instruction& i) {
  const Detail& d = *i.detail;
  const size_t operands = d.kinds.size(), axis = static_cast<size_t>(d.axis);
  const int64_t outer = product(d.shape, 0, axis), inner = product(d.shape, axis + 1, d.shape.size()),
                rest = outer * inner;
  int64_t r = d.shape[axis];
  const int64_t before = m.lanes;
  // The operands with the axis in front, then two halves beside each other.
  std::vector<std::byte*> rows(operands);
  std::vector<size_t> bytes(operands);
  size_t total = 0;
  for (size_t o = 0; o < operands; ++o) total += static_cast<size_t>(r * rest * held_size(d.kinds[o]) + 64) / 64 * 64;
  std::byte* scratch = m.scratch(0, total);
  for (size_t o = 0; o < operands; ++o) {
    const int size = held_size(d.kinds[o]);
    rows[o] = scratch;
    bytes[o] = static_cast<size_t>(rest * size);
    to_front(m.at<std::byte>(i.in[o]), rows[o], size, outer, r, inner, false);
    scratch += static_cast<size_t>(r * rest * size + 64) / 64 * 64;
  }
  while (r > 1) {
    const int64_t half = r / 2;
    m.lanes = half * rest;
    for (size_t o = 0; o < operands; ++o) {
      std::byte* a = m.at<std::byte>(d.lanes_a[o]);
      std::byte* b = m.at<std::byte>(d.lanes_b[o]);
      std::memcpy(a, rows[o], static_cast<size_t>(half) * bytes[o]);
      std::memcpy(b, rows[o] + static_cast<size_t>(half) * bytes[o], static_cast<size_t>(half) * bytes[o]);
    }
    m.run(i.bodies[0]);
    for (size_t o = 0; o < operands; ++o) {
      if (r % 2)
        std::memmove(rows[o] + static_cast<size_t>(half) * bytes[o], rows[o] + static_cast<size_t>(r - 1) * bytes[o],
                     bytes[o]);
      std::memcpy(rows[o], m.at<std::byte>(d.lanes_out[o]), static_cast<size_t>(half) * bytes[o]);
    }
    r = half + r % 2;
  }
  m.lanes = before;
  for (size_t o = 0; o < operands; ++o) std::memcpy(m.at<std::byte>(i.out[o]), rows[o], bytes[o]);
}

void map_elements(Machine& m, const Instruction& i) {
  const Detail& d = *i.detail;
  const auto copy = [&](int to, int64_t to_at, int from, int64_t from_at, size_t size) {
    std::memcpy(m.at<std::byte>(to) + static_cast<size_t>(to_at) * size,
                m.at<std::byte>(from) + static_cast<size_t>(from_at) * size, size);
  };
  for (int64_t k = 0; k < i.n; ++k) {
    for (size_t o = 0; o < d.lanes_a.size(); ++o) copy(d.lanes_a[o], 0, i.in[o], k, static_cast<size_t>(d.list[o]));
    m.run(i.bodies[0]);
    for (size_t r = 0; r < d.lanes_out.size(); ++r)
      copy(i.out[r], k, d.lanes_out[r], 0, static_cast<size_t>(held_size(d.kinds[r])));
    m.tick();
  }
}

// Hillis-Steele: step by step each row takes in the one `step` before it.
void scan(Machine& m, const Instruction& i) {
  const Detail& d = *i.detail;
  const size_t operands = d.kinds.size(), axis = static_cast<size_t>(d.axis);
  const int64_t outer = product(d.shape, 0, axis), inner = product(d.shape, axis + 1, d.shape.size()),
                rest = outer * inner;
  const int64_t r = d.shape[axis], before = m.lanes;
  std::vector<std::byte*> rows(operands);
  size_t total = 0;
  for (size_t o = 0; o < operands; ++o) total += static_cast<size_t>(r * rest * held_size(d.kinds[o]) + 64) / 64 * 64;
  std::byte* scratch = m.scratch(0, total);
  const auto turned = [&](std::byte* data, size_t row_bytes) {
    std::byte* spare = m.scratch(1, row_bytes);
    for (int64_t a = 0, b = r - 1; a < b; ++a, --b) {
      std::byte* x = data + static_cast<size_t>(a) * row_bytes;
      std::byte* y = data + static_cast<size_t>(b) * row_bytes;
      std::memcpy(spare, x, row_bytes);
      std::memcpy(x, y, row_bytes);
      std::memcpy(y, spare, row_bytes);
    }
  };
  for (size_t o = 0; o < operands; ++o) {
    const int size = held_size(d.kinds[o]);
    rows[o] = scratch;
    to_front(m.at<std::byte>(i.in[o]), rows[o], size, outer, r, inner, false);
    if (d.reverse) turned(rows[o], static_cast<size_t>(rest * size));
    scratch += static_cast<size_t>(r * rest * size + 64) / 64 * 64;
  }
  for (int64_t step = 1; step < r; step *= 2) {
    m.lanes = (r - step) * rest;
    for (size_t o = 0; o < operands; ++o) {
      const size_t size = static_cast<size_t>(held_size(d.kinds[o]));
      std::memcpy(m.at<std::byte>(d.lanes_a[o]), rows[o], static_cast<size_t>(m.lanes) * size);
      std::memcpy(m.at<std::byte>(d.lanes_b[o]), rows[o] + static_cast<size_t>(step * rest) * size,
                  static_cast<size_t>(m.lanes) * size);
    }
    const int64_t lanes = m.lanes;
    m.run(i.bodies[0]);
    for (size_t o = 0; o < operands; ++o) {
      const size_t size = static_cast<size_t>(held_size(d.kinds[o]));
      std::memcpy(rows[o] + static_cast<size_t>(step * rest) * size, m.at<std::byte>(d.lanes_out[o]),
                  static_cast<size_t>(lanes) * size);
    }
  }
  m.lanes = before;
  for (size_t o = 0; o < operands; ++o) {
    const int size = held_size(d.kinds[o]);
    if (d.reverse) turned(rows[o], static_cast<size_t>(rest * size));
    to_front(rows[o], m.at<std::byte>(i.out[o]), size, outer, r, inner, true);
  }
}

namespace {

// c += a b, rows of b in the inner loop.
template <typename T, typename A>
void multiply(const T* a, const T* b, A* c, int64_t rows, int64_t inner, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    A* out = c + r * columns;
    int64_t k = 0;
    for (; k + 4 <= inner; k += 4) {
      const A w = static_cast<A>(a[r * inner + k]), x = static_cast<A>(a[r * inner + k + 1]),
              y = static_cast<A>(a[r * inner + k + 2]), z = static_cast<A>(a[r * inner + k + 3]);
      const T* row = b + k * columns;
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) {
        out[j] += w * static_cast<A>(row[j]) + x * static_cast<A>(row[j + columns]) +
                  (y * static_cast<A>(row[j + 2 * columns]) + z * static_cast<A>(row[j + 3 * columns]));
      }
    }
    for (; k < inner; ++k) {
      const A x = static_cast<A>(a[r * inner + k]);
      const T* row = b + k * columns;
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) out[j] += x * static_cast<A>(row[j]);
    }
  }
}

}  // namespace

void dot(Machine& m, const Instruction& i) {
  const Detail& d = *i.detail;
  const size_t rank = d.shape.size();
  const int64_t batch = rank == 3 ? d.shape[0] : 1, rows = d.shape[rank - 2], inner = d.shape[rank - 1],
                columns = d.out_shape[rank - 1];
  const size_t out_bytes = static_cast<size_t>(i.n * held_size(i.out_kind));
  if (m.at<std::byte>(i.out[0]) != m.at<std::byte>(i.in[2]))
    std::memcpy(m.at<std::byte>(i.out[0]), m.at<std::byte>(i.in[2]), out_bytes);
  m.work.flops += 2.0 * static_cast<double>(batch * rows * inner) * static_cast<double>(columns);
  m.spent += batch * rows * inner * columns / 8;
  for (int64_t g = 0; g < batch; ++g) {
    const int64_t at_a = g * rows * inner, at_b = g * inner * columns, at_c = g * rows * columns;
    if (i.kind == Kind::kI8) {
      multiply(m.at<int8_t>(i.in[0]) + at_a, m.at<int8_t>(i.in[1]) + at_b, m.at<int32_t>(i.out[0]) + at_c, rows, inner,
               columns);
    } else if (i.kind == Kind::kF64) {
      multiply(m.at<double>(i.in[0]) + at_a, m.at<double>(i.in[1]) + at_b, m.at<double>(i.out[0]) + at_c, rows, inner,
               columns);
    } else {
      const float* a = m.at<float>(i.in[0]) + at_a;
      const float* b = m.at<float>(i.in[1]) + at_b;
      if (d.flag) {  // TF32
        float* cut_a = reinterpret_cast<float*>(m.scratch(2, static_cast<size_t>(rows * inner) * 4));
        float* cut_b = reinterpret_cast<float*>(m.scratch(3, static_cast<size_t>(inner * columns) * 4));
        for (int64_t k = 0; k < rows * inner; ++k) cut_a[k] = cut_to_tf32(a[k]);
        for (int64_t k = 0; k < inner * columns; ++k) cut_b[k] = cut_to_tf32(b[k]);
        a = cut_a, b = cut_b;
      }
      multiply(a, b, m.at<float>(i.out[0]) + at_c, rows, inner, columns);
    }
  }
  if (held_size(i.out_kind) == 4 && is_float(i.out_kind)) round_all(i.out_kind, m.at<float>(i.out[0]), i.n);
}

}  // namespace tritonforge::evaluate::ir::run
