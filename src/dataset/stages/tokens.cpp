// Conversation format and length: the tokens that RL would hold, with the loss mask that follows from who said what.
#include <algorithm>
#include <array>

#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

class Tokens : public Stage {
 public:
  explicit Tokens(const StageContext& context)
      : Stage("tokens"), codec_(context.codec), enable_thinking_(context.enable_thinking) {
    if (codec_ == nullptr) fail(ErrorKind::kUsage, "the stage 'tokens' needs 'tokenizer'");
  }

  void work(Row& row) override {
    if (row.messages.empty()) return row.drop(name(), "no conversation (is the stage 'convert' missing?)");
    if (row.messages.back().message.role != "assistant") {  // a prompt: what an engine would be given
      std::vector<tokenizer::Message> messages;
      for (const auto& each : row.messages) messages.push_back(each.message);
      row.tokens.tokens = codec_->opening(messages, enable_thinking_);
      row.tokens.loss_mask.assign(row.tokens.tokens.size(), 0);
      return;
    }
    row.tokens = tokenizer::taught_tokens(*codec_, row.messages, enable_thinking_);
  }

 private:
  std::shared_ptr<const tokenizer::ChatCodec> codec_;
  bool enable_thinking_;
};

class Length : public Stage {
 public:
  explicit Length(const LengthOptions& options) : Stage("length"), options_(options) {}

  void decide(Row& row) override {
    const auto length = static_cast<int64_t>(row.tokens.tokens.size());
    ++counts_[static_cast<size_t>(std::upper_bound(kBounds.begin(), kBounds.end(), length) - kBounds.begin())];
    if (length < options_.min) row.drop(name(), "shorter than min");
    else if (length > options_.max) row.drop(name(), "longer than max");
  }

  Json report() const override {
    Json histogram = Json::array();
    for (size_t i = 0; i < counts_.size(); ++i) {
      const int64_t from = i == 0 ? 0 : kBounds[i - 1];
      histogram.push_back(
          {{"from", from}, {"below", i < kBounds.size() ? Json(kBounds[i]) : Json()}, {"rows", counts_[i]}});
    }
    return {{"tokens", histogram}, {"min", options_.min}, {"max", options_.max}};
  }

 private:
  static constexpr std::array<int64_t, 9> kBounds = {100, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  LengthOptions options_;
  std::array<int64_t, kBounds.size() + 1> counts_{};
};

}  // namespace

std::unique_ptr<Stage> make_tokens(const StageContext& context) { return std::make_unique<Tokens>(context); }

void StageContext::need_tokens(const std::string& reader) const {
  if (!has_tokens) fail(ErrorKind::kUsage, "{} needs the stage 'tokens' before it", reader);
}

std::unique_ptr<Stage> make_length(const LengthOptions& options, const StageContext& context) {
  context.need_tokens("the stage 'length'");
  return std::make_unique<Length>(options);
}

}  // namespace tritonforge::dataset
