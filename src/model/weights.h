#pragma once
// Weights in and out: Hugging Face folders (safetensors), GGUF files, and safetensors files in shared memory.
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/filesystem.h"
#include "base/json.h"
#include "model/model.h"

namespace tritonforge::model {

// `path`: a Hugging Face folder or a .gguf file.
ModelConfig read_model_config(const fs::path& path);

// Reads config and weights, converting to dtype. Errors name file, tensor, expected and found.
Model load_model(const fs::path& path, at::ScalarType dtype, at::Device device);

// A GGUF file's matrices as they lie in it, mapped, and the rest of its tensors in fp32, on the CPU. Matrices of types
// without a product of their own (kernels/block_product.h) are widened, too. The file must not change while the model
// lives. Throws what load_model throws.
Model load_stored_model(const fs::path& path);

// The files that hold the weights of a Hugging Face folder: model.safetensors, or those that the index names, whatever
// lies beside them (a checkpoint's optimizer.safetensors). All .safetensors files where it has neither.
std::vector<fs::path> weight_files_in(const fs::path& folder);

// Copies every tensor of a folder, GGUF file, or .safetensors file into `model` (same shapes; values converted).
// Returns name -> checksum of what is now installed, in the dtype it is held in.
std::map<std::string, std::string> load_weights(Model& model, const fs::path& path);
// The checksums of kernels/tensor_checksum.h by name, computed where the tensors lie.
std::map<std::string, std::string> weight_checksums(const Model& model);
std::map<std::string, std::string> checksums_of(const std::vector<std::pair<std::string, at::Tensor>>& named);

// Writes a Hugging Face folder: config.json and model.safetensors (sharded above 5 GB), in the model's dtype.
// Atomic: written to FOLDER.tmp-*, then renamed. The tokenizer's files are the caller's to add. Returns name ->
// checksum.
std::map<std::string, std::string> save_model(const Model& model, const fs::path& folder);
// A safetensors file before its data: where each tensor goes, and the first bytes. Padded to a whole page, so that
// another version of the same tensors has them at the same places.
struct SafetensorsLayout {
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // in the order of the file
  std::vector<uint64_t> begins;                             // of each, from the file's begin
  std::string header;
  uint64_t bytes = 0;  // of the file
};
SafetensorsLayout lay_out_safetensors(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                                      const std::map<std::string, std::string>& metadata);
// One safetensors file; returns name -> checksum. For /dev/shm and checkpoints.
std::map<std::string, std::string> save_safetensors(const SafetensorsLayout& layout, const fs::path& file);
std::map<std::string, std::string> save_safetensors(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                                                    const fs::path& file,
                                                    const std::map<std::string, std::string>& metadata);

// The name in Hugging Face's config and here: float32, bfloat16, float16.
std::string dtype_name(at::ScalarType dtype);

// A safetensors file: names, dtypes, shapes, and views of the mapped bytes. Every offset is checked.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);  // throws kCorrupt naming file and tensor
  // The same of bytes in memory, which `owner` keeps; `name` takes the file's place in messages.
  SafetensorsFile(std::string name, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::vector<std::string> names() const;
  const fs::path& path() const { return path_; }
  bool contains(const std::string& name) const { return entries_.count(name) != 0; }
  const std::vector<int64_t>& shape(const std::string& name) const { return entry(name).shape; }
  at::Tensor tensor(const std::string& name) const;  // a view of the map: clone it to keep it

 private:
  struct Entry {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    size_t begin, end;  // in the data section
  };
  void parse();
  static Entry read_entry(const Json& value, uint64_t data_size, const std::string& where);
  void check_cover(uint64_t data_size) const;
  const Entry& entry(const std::string& name) const;  // throws kCorrupt with the nearest name
  fs::path path_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
  size_t data_start_ = 0;
};

}  // namespace tritonforge::model
