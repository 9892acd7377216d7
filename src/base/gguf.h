#pragma once
// GGUF container (version 2 and 3): metadata and tensor directory of a mapped file. Every length is checked against
// the file. Dequantisation is in model/gguf_weights; the tokenizer reads tokenizer.ggml.* from here.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

using GgufArray = std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
using GgufValue = std::variant<int64_t, double, bool, std::string, GgufArray>;

struct GgufTensor {
  std::string name;
  uint32_t type = 0;           // ggml type number
  std::vector<int64_t> shape;  // outermost first, as torch has it (GGUF stores innermost first)
  uint64_t offset = 0;         // from the start of the data section
};

class GgufFile {
 public:
  // Throws kNotFound, or kCorrupt / kUnsupported (version, array of arrays) naming file and byte.
  explicit GgufFile(const fs::path& path);
  bool has(const std::string& key) const { return metadata_.count(key) != 0; }
  int64_t integer(const std::string& key) const;  // each throws kCorrupt naming the key
  double number(const std::string& key) const;    // an integer too
  bool boolean(const std::string& key) const;
  const std::string& text(const std::string& key) const;
  const std::vector<std::string>& texts(const std::string& key) const;
  const std::vector<int64_t>& integers(const std::string& key) const;
  const std::map<std::string, GgufValue>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // The `size` bytes of a tensor's data; throws kCorrupt where they reach past the end of the file.
  std::span<const std::byte> data(const GgufTensor& tensor, size_t size) const;
  const fs::path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  std::map<std::string, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  size_t data_start_ = 0;
};

}  // namespace tritonforge
