#pragma once
// Types of Triton IR values, and how the evaluator holds them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge::evaluate::ir {

// kTuple: a block pointer or tensor descriptor, held as 64-bit integers {base, sizes, strides, offsets}.
enum class Kind : uint8_t { kI1, kI8, kI16, kI32, kI64, kF8E4M3, kF8E5M2, kF16, kBF16, kF32, kF64, kPointer, kTuple };
std::string_view name_of(Kind kind);

constexpr bool is_float(Kind kind) { return kind >= Kind::kF8E4M3 && kind <= Kind::kF64; }
constexpr bool is_integer(Kind kind) { return kind <= Kind::kI64; }

// Bytes of an element in a buffer that a pointer points into.
constexpr int memory_size(Kind kind) {
  switch (kind) {
    case Kind::kI1:
    case Kind::kI8:
    case Kind::kF8E4M3:
    case Kind::kF8E5M2: return 1;
    case Kind::kI16:
    case Kind::kF16:
    case Kind::kBF16: return 2;
    case Kind::kI32:
    case Kind::kF32: return 4;
    default: return 8;
  }
}
constexpr int bits_of(Kind kind) { return kind == Kind::kI1 ? 1 : 8 * memory_size(kind); }

// Bytes of an element while it is computed with: narrow floats are held as float32 rounded to their type.
constexpr int held_size(Kind kind) { return is_float(kind) && kind != Kind::kF64 ? 4 : memory_size(kind); }

struct Type {
  Kind kind = Kind::kI32;
  Kind pointee = Kind::kI8;    // of kPointer and kTuple
  bool block = false;          // a tensor; a scalar otherwise
  std::vector<int64_t> shape;  // of a tensor; of kTuple the block that it names
  int64_t elements() const {
    int64_t count = 1;
    if (block)
      for (const int64_t size : shape) count *= size;
    return count;
  }
  // Numbers that are held for one value: 1 + 3 rank for kTuple.
  int64_t held() const { return kind == Kind::kTuple ? 1 + 3 * static_cast<int64_t>(shape.size()) : elements(); }
  bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);

}  // namespace tritonforge::evaluate::ir
