// libs: tf_tokenizer
#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/bpe_trainer.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

using namespace tritonforge;
namespace unicode = tokenizer::unicode;

namespace {
const tokenizer::Tokenizer& trained() {
  static const tokenizer::Tokenizer made(
      tokenizer::train_bpe({"def kernel(x_ptr, BLOCK: tl.constexpr):\n    x = tl.load(x_ptr)\n    世界 世界",
                            "tl.load tl.load x_ptr kernel  \n\n    "}));
  return made;
}
}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto ids = trained().encode(text);
  std::string bytes;
  tokenizer::StreamDecoder stream(trained(), /*skip_special_tokens=*/false);
  std::string streamed;
  for (const int64_t id : ids) {
    bytes += trained().token_bytes(id);
    streamed += stream.feed(id);
  }
  const std::string decoded = trained().decode(ids);
  if (streamed + stream.finish() != decoded) return 1;
  if (unicode::nfc(text) != unicode::nfc(unicode::nfc(text))) return 1;
  // An added token is never normalised, so what stands on its two sides is by itself.
  if (text.find('<') == std::string::npos && bytes != unicode::nfc(text)) return 1;
  return unicode::is_valid_utf8(text) && text.find('<') == std::string::npos && decoded != unicode::nfc(text);
}

std::vector<std::string> fuzz_seeds() {
  return {"def kernel(x_ptr):\n    it's  '\xC5\xBF <|im_end|> <think>\r\n\t x=1234  \n",
          "e\u0301 o\u0323\u0302 \u1112\u1161\u11ab \u0344\u212b 👍🏽 世界",
          std::string(200, 'a') + std::string(100, ' ') + "\xFF\xE4\xB8"};
}
