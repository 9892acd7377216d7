#pragma once
// Plain values and arrays one after the other, little-endian: what our own processes and files hand each other where
// JSON would cost more than it says.
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tritonforge {

static_assert(std::endian::native == std::endian::little, "binary forms are little-endian, as this code copies them");

class BinaryWriter {
 public:
  template <typename T>
  void value(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) { bytes_.append(text); }
  template <typename T>
  void array(std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws kUsage, naming `where`, at the end of the bytes. It never allocates more than the bytes could fill.
class BinaryReader {
 public:
  explicit BinaryReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T value(std::string_view where) {
    T value;
    std::memcpy(&value, take(sizeof value, where).data(), sizeof value);
    return value;
  }
  std::string_view text(size_t length, std::string_view where) { return take(length, where); }
  template <typename T>
  std::vector<T> array(size_t length, std::string_view where) {
    if (length > left() / sizeof(T)) cut(where);
    std::vector<T> values(length);
    const std::string_view bytes = take(length * sizeof(T), where);
    if (length > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  size_t left() const { return bytes_.size() - at_; }

 private:
  [[noreturn]] void cut(std::string_view where) const {
    fail(ErrorKind::kUsage, "{}: the {} bytes end before it does", where, bytes_.size());
  }
  std::string_view take(size_t length, std::string_view where) {
    if (length > left()) cut(where);
    const std::string_view taken = bytes_.substr(at_, length);
    at_ += length;
    return taken;
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace tritonforge
