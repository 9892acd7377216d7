// Megatron's indexed data set (megatron/core/datasets/indexed_dataset.py): SPLIT.bin holds the tokens of all documents
// as int32, SPLIT.idx says where each begins. SPLIT_loss_mask is another such set, of uint8: 1 = learned.
//
// The index: "MMIDIDX\0\0", version 1 (u64), the type's code (u8), sequences (u64), document boundaries (u64), then
// the sequences' lengths (i32), their places in the .bin in bytes (i64), the documents' boundaries (i64: 0, 1, ..., n).
#include <numeric>

#include "dataset/outputs/output.h"

namespace tritonforge::dataset {
namespace {

enum class TypeCode : uint8_t { kUint8 = 1, kInt32 = 4 };

template <typename T, TypeCode code>
class IndexedSet {
 public:
  explicit IndexedSet(const fs::path& stem) : bin_(with_ending(stem, ".bin")), index_(with_ending(stem, ".idx")) {}

  void write(const std::vector<T>& document) {
    bin_.write_values(document);
    lengths_.push_back(static_cast<int32_t>(document.size()));
  }

  void close(std::vector<fs::path>& names) {
    std::vector<int64_t> places, boundaries(lengths_.size() + 1);
    int64_t at = 0;
    for (const int32_t length : lengths_) {
      places.push_back(at);
      at += length * static_cast<int64_t>(sizeof(T));
    }
    std::iota(boundaries.begin(), boundaries.end(), int64_t{0});
    index_.write({"MMIDIDX\0\0", 9});
    index_.write_values(std::vector<uint64_t>{1});
    index_.write_values(std::vector<uint8_t>{static_cast<uint8_t>(code)});
    index_.write_values(std::vector<uint64_t>{lengths_.size(), boundaries.size()});
    index_.write_values(lengths_);
    index_.write_values(places);
    index_.write_values(boundaries);
    names.push_back(bin_.close());
    names.push_back(index_.close());
  }

 private:
  WholeFile bin_, index_;
  std::vector<int32_t> lengths_;
};

class MegatronFiles {
 public:
  explicit MegatronFiles(const fs::path& stem) : tokens_(stem), masks_(stem.string() + "_loss_mask") {}
  void write(const tokenizer::MaskedTokens& document) {
    tokens_.write({document.tokens.begin(), document.tokens.end()});
    masks_.write(document.loss_mask);
  }
  std::vector<fs::path> close() {
    std::vector<fs::path> names;
    tokens_.close(names);
    masks_.close(names);
    return names;
  }

 private:
  IndexedSet<int32_t, TypeCode::kInt32> tokens_;
  IndexedSet<uint8_t, TypeCode::kUint8> masks_;
};

class Megatron : public Output {
 public:
  explicit Megatron(const fs::path& folder) : files_(folder) {}
  void write(const Row& row) override {
    if (row.learns()) files_.of(row.split).write(row.tokens);
  }
  std::vector<fs::path> close() override { return files_.close(); }

 private:
  BySplit<MegatronFiles> files_;
};

}  // namespace

std::unique_ptr<Output> make_megatron(const fs::path& folder) { return std::make_unique<Megatron>(folder); }

}  // namespace tritonforge::dataset
