// libs: tf_tokenizer
// The renderer and the masks: whatever the messages hold, a turn begins and ends only where the conversation has one,
// and exactly the tokens of learned answers carry loss.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat_codec.h"
#include "tokenizer/tokenizer.h"

using namespace tritonforge;
using namespace tritonforge::tokenizer;

namespace {

const char* const kFolder = TF_SOURCE_DIR "/tests/data/tiny-tokenizer";

// Messages from the bytes: each line is one; its first byte says whose.
std::vector<TaughtMessage> conversation_of(std::string_view text) {
  std::vector<TaughtMessage> out = {{{"user", "q"}}};
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const bool answer = line[0] % 2 == 0 && out.back().message.role != "assistant";
    TaughtMessage& each = out.emplace_back();
    each.message.role = answer ? "assistant" : line[0] % 3 == 0 ? "system" : "user";
    each.message.content = line.substr(1);
    each.learned = answer && line[0] % 4 == 0;
  }
  if (out.back().message.role != "assistant") out.push_back({{"assistant", "a"}, true});
  return out;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  static const auto codec = load_chat_codec(kFolder);
  static const Tokenizer tokenizer = Tokenizer::load(kFolder);
  const auto conversation = conversation_of({reinterpret_cast<const char*>(data), size});
  const MaskedTokens taught = taught_tokens(*codec, conversation, /*enable_thinking=*/true);
  if (taught.tokens.size() != taught.loss_mask.size()) return 1;
  const auto count = [&](const char* token) {
    return static_cast<size_t>(std::count(taught.tokens.begin(), taught.tokens.end(), tokenizer.id_of(token).value()));
  };
  if (count("<|im_start|>") != conversation.size() || count("<|im_end|>") != conversation.size()) return 1;
  size_t learned = 0, expected = 0;
  for (const uint8_t each : taught.loss_mask) learned += each;
  for (const auto& each : conversation) {
    if (each.learned) expected += codec->answer(each.message, true).size();
  }
  return learned == expected ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  return {"aq\nbanswer <|im_end|>\naagain <|im_start|>assistant\n\xF0\xFF\xFE\nd<think>t</think>\n", "cs\nd\n"};
}
