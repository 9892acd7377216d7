#include "dataset/outputs/packed.h"

#include <numeric>

#include "base/checksum.h"
#include "base/rng.h"
#include "dataset/outputs/output.h"
#include "tokenizer/definition.h"

namespace tritonforge::dataset {
namespace {

template <typename T>
std::span<const T> values_in(const MappedFile& file) {
  return {reinterpret_cast<const T*>(file.bytes().data()), file.bytes().size() / sizeof(T)};
}

class PackedFiles {
 public:
  explicit PackedFiles(const fs::path& stem)
      : stem_(stem),
        tokens_(with_ending(stem, ".tokens")),
        mask_(with_ending(stem, ".mask")),
        offsets_(with_ending(stem, ".offsets")) {}

  void write(const tokenizer::MaskedTokens& example) {
    tokens_.write_values(std::vector<int32_t>(example.tokens.begin(), example.tokens.end()));
    mask_.write_values(example.loss_mask);
    ends_.push_back(ends_.back() + example.tokens.size());
    learned_ += std::accumulate(example.loss_mask.begin(), example.loss_mask.end(), uint64_t{0});
  }

  std::vector<fs::path> close() {
    offsets_.write_values(ends_);
    std::vector<fs::path> names = {tokens_.close(), mask_.close(), offsets_.close()};
    Json header{{"version", 1},        {"examples", ends_.size() - 1}, {"tokens", ends_.back()},
                {"learned", learned_}, {"tokenizer", tokenizer},       {"enable_thinking", enable_thinking}};
    for (const fs::path& name : names) header["checksums"][name.filename().string()] = checksum_of_file(name);
    names.push_back(with_ending(stem_, ".json"));
    write_file_atomic(names.back(), header.dump(1) + "\n");
    return names;
  }

  std::string tokenizer;
  bool enable_thinking = true;

 private:
  fs::path stem_;
  WholeFile tokens_, mask_, offsets_;
  std::vector<uint64_t> ends_ = {0};
  uint64_t learned_ = 0;
};

class Packed : public Output {
 public:
  Packed(const fs::path& folder, const fs::path& tokenizer, bool enable_thinking)
      : files_(folder), tokenizer_(checksum_of_tokenizer(tokenizer)), enable_thinking_(enable_thinking) {}

  void write(const Row& row) override {
    if (!row.learns()) return;
    PackedFiles& files = files_.of(row.split);
    files.tokenizer = tokenizer_;
    files.enable_thinking = enable_thinking_;
    files.write(row.tokens);
  }
  std::vector<fs::path> close() override { return files_.close(); }

 private:
  BySplit<PackedFiles> files_;
  std::string tokenizer_;
  bool enable_thinking_;
};

}  // namespace

PackedTokens::PackedTokens(const fs::path& stem)
    : token_file_(with_ending(stem, ".tokens")),
      mask_file_(with_ending(stem, ".mask")),
      offset_file_(with_ending(stem, ".offsets")),
      offsets_(values_in<uint64_t>(offset_file_)) {
  const std::string where = with_ending(stem, ".json").string();
  const Json header = parse_json(read_file(where), where);
  tokenizer_ = require<std::string>(header, "tokenizer", where);
  enable_thinking_ = require<bool>(header, "enable_thinking", where);
  const bool whole = !offsets_.empty() && offset_file_.bytes().size() % sizeof(uint64_t) == 0 && offsets_[0] == 0 &&
                     std::is_sorted(offsets_.begin(), offsets_.end()) &&
                     require<uint64_t>(header, "examples", where) == offsets_.size() - 1 &&
                     mask_file_.bytes().size() == offsets_.back() &&
                     token_file_.bytes().size() == offsets_.back() * sizeof(int32_t);
  if (!whole) fail(ErrorKind::kCorrupt, "{}: its .tokens, .mask and .offsets do not fit one another", stem.string());
}

tokenizer::MaskedTokens PackedTokens::example(size_t index) const {
  const auto tokens = values_in<int32_t>(token_file_).subspan(offsets_[index], static_cast<size_t>(length(index)));
  const auto mask = values_in<uint8_t>(mask_file_).subspan(offsets_[index], static_cast<size_t>(length(index)));
  return {{tokens.begin(), tokens.end()}, {mask.begin(), mask.end()}};
}

std::string checksum_of_tokenizer(const fs::path& tokenizer) {
  const auto definition = tokenizer::read_definition(tokenizer);
  return checksum(definition.tokenizer_json.empty() ? tokenizer::write_tokenizer_json(definition)
                                                    : definition.tokenizer_json);
}

size_t SampleOrder::at(uint64_t position) {
  const uint64_t epoch = position / examples_;
  if (epoch != epoch_) {
    order_.resize(examples_);
    std::iota(order_.begin(), order_.end(), size_t{0});
    Rng(Rng::derive(seed_, epoch)).shuffle(order_);
    epoch_ = epoch;
  }
  return order_[position % examples_];
}

std::unique_ptr<Output> make_packed(const fs::path& folder, const fs::path& tokenizer, bool enable_thinking) {
  if (tokenizer.empty()) fail(ErrorKind::kUsage, "the output 'packed' needs 'tokenizer'");
  return std::make_unique<Packed>(folder, tokenizer, enable_thinking);
}

}  // namespace tritonforge::dataset
