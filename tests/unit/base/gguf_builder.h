#pragma once
// Writes GGUF bytes by hand, so that a test can put a fault in any field.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge::testing {

class GgufBuilder {
 public:
  template <typename T>
  GgufBuilder& raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBuilder& text(std::string_view value) {
    raw<uint64_t>(value.size());
    bytes_.append(value);
    return *this;
  }
  GgufBuilder& header(uint32_t version, uint64_t tensors, uint64_t keys) {
    bytes_ += "GGUF";
    return raw(version).raw(tensors).raw(keys);
  }
  GgufBuilder& key(std::string_view name, uint32_t type) { return text(name).raw(type); }
  GgufBuilder& texts(std::string_view name, const std::vector<std::string>& values) {
    key(name, 9).raw<uint32_t>(8).raw<uint64_t>(values.size());
    for (const auto& value : values) text(value);
    return *this;
  }
  GgufBuilder& integers(std::string_view name, const std::vector<int32_t>& values) {
    key(name, 9).raw<uint32_t>(5).raw<uint64_t>(values.size());
    for (const auto& value : values) raw(value);
    return *this;
  }
  // `extents` innermost first, as the format has them.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type, uint64_t offset) {
    text(name).raw<uint32_t>(static_cast<uint32_t>(extents.size()));
    for (const auto extent : extents) raw(extent);
    return raw(type).raw(offset);
  }
  GgufBuilder& pad_to(size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace tritonforge::testing
