#pragma once
// XXH3-128 of bytes as 32 hex digits: sources, files. Tensors have theirs in kernels/tensor_checksum.h.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace tritonforge {
std::string checksum(const void* data, size_t size);
inline std::string checksum(std::string_view text) { return checksum(text.data(), text.size()); }
// The same of a file's bytes, a piece at a time. Throws what read_file() throws.
std::string checksum_of_file(const std::filesystem::path& file);
}  // namespace tritonforge
