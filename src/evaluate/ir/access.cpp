// Loads, stores and atomics, through pointers and through block pointers and tensor descriptors. Neighbouring elements
// at neighbouring addresses are handled as one run.
#include <algorithm>
#include <limits>

#include "evaluate/ir/floats.h"
#include "evaluate/ir/machine.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir::run {
namespace {

void take(Kind kind, const std::byte* from, std::byte* held, int64_t at, int64_t count) {
  const auto* half = reinterpret_cast<const uint16_t*>(from);
  const auto* byte = reinterpret_cast<const uint8_t*>(from);
  float* out = reinterpret_cast<float*>(held) + at;
  switch (kind) {
    case Kind::kF16:
      for (int64_t k = 0; k < count; ++k) out[k] = half_to_float(half[k]);
      break;
    case Kind::kBF16:
      for (int64_t k = 0; k < count; ++k) out[k] = bf16_to_float(half[k]);
      break;
    case Kind::kF8E4M3:
      for (int64_t k = 0; k < count; ++k) out[k] = E4M3::to_float(byte[k]);
      break;
    case Kind::kF8E5M2:
      for (int64_t k = 0; k < count; ++k) out[k] = E5M2::to_float(byte[k]);
      break;
    case Kind::kI1:
      for (int64_t k = 0; k < count; ++k) reinterpret_cast<uint8_t*>(held)[at + k] = byte[k] & 1;
      break;
    default: {
      const int size = memory_size(kind);
      std::memcpy(held + at * size, from, static_cast<size_t>(count * size));
    }
  }
}

// The bytes of held elements as memory has them; narrow floats are encoded into `spare`.
const std::byte* encoded(Kind kind, const std::byte* held, int64_t at, int64_t count, std::byte* spare) {
  const float* in = reinterpret_cast<const float*>(held) + at;
  switch (kind) {
    case Kind::kF16:
      for (int64_t k = 0; k < count; ++k) reinterpret_cast<uint16_t*>(spare)[k] = half_bits(in[k]);
      return spare;
    case Kind::kBF16:
      for (int64_t k = 0; k < count; ++k) reinterpret_cast<uint16_t*>(spare)[k] = bf16_bits(in[k]);
      return spare;
    case Kind::kF8E4M3:
      for (int64_t k = 0; k < count; ++k) reinterpret_cast<uint8_t*>(spare)[k] = E4M3::bits(in[k]);
      return spare;
    case Kind::kF8E5M2:
      for (int64_t k = 0; k < count; ++k) reinterpret_cast<uint8_t*>(spare)[k] = E5M2::bits(in[k]);
      return spare;
    default: return held + at * memory_size(kind);
  }
}

std::byte* reach(Machine& m, Memory::Access kind, uint64_t address, int64_t count, int size,
                 const std::byte* fresh = nullptr) {
  try {
    if (address % static_cast<uint64_t>(size) != 0)
      throw std::out_of_range(fmt::format("misaligned access of {} bytes at offset {}", size,
                                          address & ((uint64_t{1} << Memory::kBits) - 1)));
    return m.memory.access(kind, address, count, size, fresh);
  } catch (const std::out_of_range& error) {
    m.fault(error.what());
  }
}

// Calls use(first, count) for each run of unmasked elements whose addresses follow each other.
template <typename Use>
void runs(const uint64_t* addresses, const uint8_t* mask, bool single_mask, int64_t n, int size, Use use) {
  if (mask && single_mask) {
    if (!mask[0]) return;
    mask = nullptr;
  }
  const uint64_t step = static_cast<uint64_t>(size);
  int64_t k = 0;
  while (k < n) {
    if (mask && !mask[k]) {
      ++k;
      continue;
    }
    int64_t end = k + 1;
    if (mask) {
      while (end < n && mask[end] && addresses[end] == addresses[end - 1] + step) ++end;
    } else {
      while (end < n && addresses[end] == addresses[end - 1] + step) ++end;
    }
    use(k, end - k);
    k = end;
  }
}

void fill_held(Kind kind, std::byte* out, const std::byte* other, bool single, int64_t n) {
  const int size = held_size(kind);
  if (!other) {
    std::memset(out, 0, static_cast<size_t>(n * size));
  } else if (!single) {
    std::memcpy(out, other, static_cast<size_t>(n * size));
  } else if (size == 4) {
    std::fill(reinterpret_cast<uint32_t*>(out), reinterpret_cast<uint32_t*>(out) + n,
              *reinterpret_cast<const uint32_t*>(other));
  } else {
    for (int64_t k = 0; k < n; ++k) std::memcpy(out + k * size, other, static_cast<size_t>(size));
  }
}

}  // namespace

void address(Machine& m, const Instruction& i) {
  const int64_t n = i.n, size = i.detail->list[0], sa = i.single & 1 ? 0 : 1, sb = i.single & 2 ? 0 : 1;
  const uint64_t* base = m.at<uint64_t>(i.in[0]);
  uint64_t* out = m.at<uint64_t>(i.out[0]);
  const auto add = [&](const auto* offset) {
    if (sa == 0) {
      const uint64_t from = base[0];
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) out[k] = from + static_cast<uint64_t>(static_cast<int64_t>(offset[k]) * size);
    } else if (sb == 0) {
      const uint64_t by = static_cast<uint64_t>(static_cast<int64_t>(offset[0]) * size);
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) out[k] = base[k] + by;
    } else {
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) out[k] = base[k] + static_cast<uint64_t>(static_cast<int64_t>(offset[k]) * size);
    }
  };
  switch (i.kind) {
    case Kind::kI64: return add(m.at<int64_t>(i.in[1]));
    case Kind::kI32: return add(m.at<int32_t>(i.in[1]));
    case Kind::kI16: return add(m.at<int16_t>(i.in[1]));
    default: return add(m.at<int8_t>(i.in[1]));
  }
}

// in: pointers, mask or -1, other or -1.
void load(Machine& m, const Instruction& i) {
  const int size = memory_size(i.out_kind);
  std::byte* out = m.at<std::byte>(i.out[0]);
  const uint64_t* addresses = m.at<uint64_t>(i.in[0]);
  const uint8_t* mask = i.in[1] >= 0 ? m.at<uint8_t>(i.in[1]) : nullptr;
  if (mask) fill_held(i.out_kind, out, i.in[2] >= 0 ? m.at<std::byte>(i.in[2]) : nullptr, i.single & 4, i.n);
  runs(addresses, mask, i.single & 2, i.n, size, [&](int64_t first, int64_t count) {
    take(i.out_kind, reach(m, Memory::Access::kLoad, addresses[first], count, size), out, first, count);
    m.work.bytes += static_cast<double>(count * size);
  });
}

// in: pointers, value, mask or -1.
void store(Machine& m, const Instruction& i) {
  const int size = memory_size(i.kind);
  const std::byte* value = m.at<std::byte>(i.in[1]);
  const uint64_t* addresses = m.at<uint64_t>(i.in[0]);
  const uint8_t* mask = i.in[2] >= 0 ? m.at<uint8_t>(i.in[2]) : nullptr;
  std::byte* spare = m.scratch(4, static_cast<size_t>(i.n * size));
  const auto each_run = [&](auto use) {
    runs(addresses, mask, i.single & 4, i.n, size, [&](int64_t first, int64_t count) {
      const std::byte* bytes = encoded(i.kind, value, first, count, spare);
      use(reach(m, Memory::Access::kStore, addresses[first], count, size, bytes), bytes, addresses[first],
          static_cast<size_t>(count * size));
    });
  };
  uint64_t end = 0;
  bool ascending = true;
  each_run([&](std::byte* to, const std::byte* bytes, uint64_t from, size_t length) {
    std::memcpy(to, bytes, length);
    m.work.bytes += static_cast<double>(length);
    ascending = ascending && from >= end;
    end = from + length;
  });
  if (ascending) return;
  // Which of several lanes stays where they store to one place is nobody's to know, unless all store the same.
  each_run([&](const std::byte* at, const std::byte* bytes, uint64_t, size_t length) {
    if (std::memcmp(at, bytes, length) != 0) m.fault("lanes of a store write different values to one place");
  });
}

namespace {

template <typename T>
T combine(const std::string& op, T old, T value) {
  if (op == "exch") return value;
  if constexpr (std::is_floating_point_v<T>) {
    if (op == "fadd") return old + value;
    if (op == "max") return value > old || old != old ? value : old;
    return value < old || old != old ? value : old;  // min
  } else {
    using U = std::make_unsigned_t<T>;
    if (op == "add") return static_cast<T>(static_cast<U>(old) + static_cast<U>(value));
    if (op == "and") return old & value;
    if (op == "or") return old | value;
    if (op == "xor") return old ^ value;
    if (op == "max") return std::max(old, value);
    if (op == "min") return std::min(old, value);
    if (op == "umax") return static_cast<T>(std::max(static_cast<U>(old), static_cast<U>(value)));
    return static_cast<T>(std::min(static_cast<U>(old), static_cast<U>(value)));  // umin
  }
}

// To other programs an atomic of one block's scope is a load and, where it changes something, a store.
std::byte* reach_atomic(Machine& m, const Instruction& i, uint64_t address, int size) {
  if (i.detail->flag) return reach(m, Memory::Access::kLoad, address, 1, size);
  std::byte* at = reach(m, Memory::Access::kAtomic, address, 1, size);
  if (i.detail->acquires) m.memory.acquire(address);
  return at;
}

void exchange(Machine& m, const Instruction& i, uint64_t address, std::byte* at, const std::byte* now, int size) {
  if (std::memcmp(at, now, static_cast<size_t>(size)) == 0) return;
  if (i.detail->flag) at = reach(m, Memory::Access::kStore, address, 1, size, now);
  std::memcpy(at, now, static_cast<size_t>(size));
  ++m.memory.changes;
  if (i.detail->releases) m.memory.release(address);
}

// What an atomic gives where its mask is off: of a block zeros, of one number what shared memory has from earlier.
template <typename T>
T left_out(const Instruction& i) {
  if (i.n > 1) return T(0);
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::quiet_NaN();
  else return static_cast<T>(0x5B5B5B5B);
}

// Changes one element; what was there before.
template <typename T>
T change(Machine& m, const Instruction& i, uint64_t address, T value) {
  const int size = memory_size(i.kind);
  std::byte* at = reach_atomic(m, i, address, size);
  T old;
  take(i.kind, at, reinterpret_cast<std::byte*>(&old), 0, 1);
  T now = combine(i.detail->text, old, value);
  if constexpr (std::is_same_v<T, float>) now = round_to(i.kind, now);
  std::byte spare[8];
  exchange(m, i, address, at, encoded(i.kind, reinterpret_cast<const std::byte*>(&now), 0, 1, spare), size);
  m.work.bytes += 2.0 * size;
  m.work.flops += is_float(i.kind) ? 1 : 0;
  return old;
}

template <typename T>
void change_each(Machine& m, const Instruction& i) {
  const T* value = m.at<T>(i.in[1]);
  const uint64_t* addresses = m.at<uint64_t>(i.in[0]);
  const uint8_t* mask = i.in[2] >= 0 ? m.at<uint8_t>(i.in[2]) : nullptr;
  T* out = m.at<T>(i.out[0]);
  m.pause();
  for (int64_t k = 0; k < i.n; ++k) {
    const bool off = mask && !mask[i.single & 4 ? 0 : k];
    out[k] = off ? left_out<T>(i) : change(m, i, addresses[k], value[i.single & 2 ? 0 : k]);
  }
}

// Calls use with a value of the type that holds an element.
template <typename Use>
void as_held(Kind kind, Use use) {
  switch (kind) {
    case Kind::kI8: return use(int8_t());
    case Kind::kI16: return use(int16_t());
    case Kind::kI32: return use(int32_t());
    case Kind::kI64: return use(int64_t());
    case Kind::kF64: return use(double());
    default: return use(float());
  }
}

}  // namespace

// in: pointers, value, mask or -1. Element after element, as the hardware orders them somehow.
void atomic_rmw(Machine& m, const Instruction& i) {
  as_held(i.kind, [&](auto held) { change_each<decltype(held)>(m, i); });
}

// in: pointers, what is expected, the new value. Compares bits.
void atomic_cas(Machine& m, const Instruction& i) {
  const int size = memory_size(i.kind), held = held_size(i.kind);
  const uint64_t* addresses = m.at<uint64_t>(i.in[0]);
  const std::byte* expected = m.at<std::byte>(i.in[1]);
  const std::byte* value = m.at<std::byte>(i.in[2]);
  std::byte* out = m.at<std::byte>(i.out[0]);
  std::byte spare_a[8], spare_b[8];
  m.pause();
  for (int64_t k = 0; k < i.n; ++k) {
    std::byte* at = reach_atomic(m, i, addresses[k], size);
    std::byte old[8];
    std::memcpy(old, at, static_cast<size_t>(size));
    if (std::memcmp(old, encoded(i.kind, expected, i.single & 2 ? 0 : k, 1, spare_a), static_cast<size_t>(size)) == 0)
      exchange(m, i, addresses[k], at, encoded(i.kind, value, i.single & 4 ? 0 : k, 1, spare_b), size);
    take(i.kind, old, out + k * held, 0, 1);
    m.work.bytes += 2.0 * size;
  }
}

// A block pointer or descriptor: {base, sizes, strides, offsets}. in: base, sizes, strides, offsets (none of a
// descriptor).
void make_tuple(Machine& m, const Instruction& i) {
  int64_t* out = m.at<int64_t>(i.out[0]);
  const size_t rank = static_cast<size_t>(i.detail->list[0]);
  for (size_t k = 0; k < 1 + 3 * rank; ++k) {
    if (k >= i.in.size()) out[k] = 0;
    else if (i.detail->kinds[k] == Kind::kI32) out[k] = *m.at<int32_t>(i.in[k]);
    else out[k] = *m.at<int64_t>(i.in[k]);
  }
}

void advance(Machine& m, const Instruction& i) {
  int64_t* out = m.at<int64_t>(i.out[0]);
  const int64_t* in = m.at<int64_t>(i.in[0]);
  const size_t rank = static_cast<size_t>(i.detail->list[0]);
  std::copy(in, in + 1 + 3 * rank, out);
  for (size_t d = 0; d < rank; ++d)
    out[1 + 2 * rank + d] += i.detail->kinds[d] == Kind::kI32 ? *m.at<int32_t>(i.in[1 + d])
                                                              : *m.at<int64_t>(i.in[1 + d]);
}

namespace {

// What the tensor memory accelerator demands. Sizes that were reduced may leave less.
void check_descriptor(Machine& m, const int64_t* tuple, size_t rank, int64_t width) {
  constexpr int64_t kAligned = 16;
  if (tuple[0] % kAligned != 0) m.fault("a tensor descriptor of memory that does not begin at a multiple of 16 bytes");
  for (size_t k = 0; k + 1 < rank; ++k) {
    const int64_t bytes = tuple[1 + rank + k] * width;
    if (bytes % kAligned != 0)
      m.fault(fmt::format("a tensor descriptor with a stride of {} bytes, which must be a multiple of 16", bytes));
  }
  if (tuple[2 * rank] != 1) m.fault(fmt::format("a tensor descriptor with a last stride of {}", tuple[2 * rank]));
}

// Calls use(first element, count, address) for the rows of the block, use with count 0 never; elements outside of the
// checked dimensions are left out. Offsets come from the tuple, plus those in i.in[2...] of a descriptor.
template <typename Use>
void block_rows(Machine& m, const Instruction& i, Kind kind, Use use) {
  const Detail& d = *i.detail;
  const size_t rank = d.shape.size();
  const int64_t* tuple = m.at<int64_t>(i.in[0]);
  if (!d.list.empty() && m.options.own_sizes) check_descriptor(m, tuple, rank, memory_size(kind));
  std::array<int64_t, 8> size{}, stride{}, from{}, index{};
  for (size_t k = 0; k < rank; ++k) {
    size[k] = tuple[1 + k], stride[k] = tuple[1 + rank + k], from[k] = tuple[1 + 2 * rank + k];
    if (!d.list.empty())
      from[k] += d.kinds[k] == Kind::kI32 ? *m.at<int32_t>(d.lanes_a[k]) : *m.at<int64_t>(d.lanes_a[k]);
  }
  const auto inside = [&](size_t k, int64_t at) { return !(d.order[k] && (at < 0 || at >= size[k])); };
  const int64_t inner = d.shape[rank - 1], width = memory_size(kind);
  int64_t rows = 1;
  for (size_t k = 0; k + 1 < rank; ++k) rows *= d.shape[k];
  for (int64_t row = 0; row < rows; ++row) {
    bool in = true;
    int64_t offset = 0;
    for (size_t k = 0; k + 1 < rank; ++k) {
      in = in && inside(k, from[k] + index[k]);
      offset += (from[k] + index[k]) * stride[k];
    }
    if (in) {
      int64_t first = 0, last = inner;
      if (d.order[rank - 1]) {
        first = std::clamp<int64_t>(-from[rank - 1], 0, inner);
        last = std::clamp<int64_t>(size[rank - 1] - from[rank - 1], first, inner);
      }
      const int64_t step = stride[rank - 1];
      const auto at = [&](int64_t k) {
        return static_cast<uint64_t>(tuple[0]) + static_cast<uint64_t>((offset + (from[rank - 1] + k) * step) * width);
      };
      if (step == 1) {
        if (last > first) use(row * inner + first, last - first, at(first));
      } else {
        for (int64_t k = first; k < last; ++k) use(row * inner + k, 1, at(k));
      }
    }
    for (size_t k = rank - 1; k-- > 0;) {
      if (++index[k] < d.shape[k]) break;
      index[k] = 0;
    }
  }
}

}  // namespace

void load_block(Machine& m, const Instruction& i) {
  const int size = memory_size(i.out_kind);
  std::byte* out = m.at<std::byte>(i.out[0]);
  if (i.detail->flag && is_float(i.out_kind)) {  // padded with NaN
    if (i.out_kind == Kind::kF64)
      std::fill(reinterpret_cast<double*>(out), reinterpret_cast<double*>(out) + i.n,
                std::numeric_limits<double>::quiet_NaN());
    else
      std::fill(reinterpret_cast<float*>(out), reinterpret_cast<float*>(out) + i.n,
                std::numeric_limits<float>::quiet_NaN());
  } else {
    std::memset(out, 0, static_cast<size_t>(i.n * held_size(i.out_kind)));
  }
  block_rows(m, i, i.out_kind, [&](int64_t first, int64_t count, uint64_t address) {
    take(i.out_kind, reach(m, Memory::Access::kLoad, address, count, size), out, first, count);
    m.work.bytes += static_cast<double>(count * size);
  });
}

void store_block(Machine& m, const Instruction& i) {
  const int size = memory_size(i.kind);
  const std::byte* value = m.at<std::byte>(i.in[1]);
  int64_t n = 1;
  for (const int64_t s : i.detail->shape) n *= s;
  std::byte* spare = m.scratch(4, static_cast<size_t>(n * size));
  block_rows(m, i, i.kind, [&](int64_t first, int64_t count, uint64_t address) {
    const std::byte* bytes = encoded(i.kind, value, first, count, spare);
    std::memcpy(reach(m, Memory::Access::kStore, address, count, size, bytes), bytes,
                static_cast<size_t>(count * size));
    m.work.bytes += static_cast<double>(count * size);
  });
}

// An atomic of each element that is inside.
void reduce_block(Machine& m, const Instruction& i) {
  m.pause();
  as_held(i.kind, [&](auto held) {
    const auto* value = m.at<decltype(held)>(i.in[1]);
    const auto size = static_cast<uint64_t>(memory_size(i.kind));
    block_rows(m, i, i.kind, [&](int64_t first, int64_t count, uint64_t address) {
      for (int64_t k = 0; k < count; ++k) change(m, i, address + static_cast<uint64_t>(k) * size, value[first + k]);
    });
  });
}

void check(Machine& m, const Instruction& i) {
  const uint8_t* holds = m.at<uint8_t>(i.in[0]);
  const int64_t n = i.detail->list[0];
  for (int64_t k = 0; k < n; ++k) {
    if (!holds[k]) m.fault("assertion failed: " + i.detail->text);
  }
}

}  // namespace tritonforge::evaluate::ir::run
