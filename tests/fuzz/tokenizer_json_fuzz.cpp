// libs: tf_tokenizer
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const tokenizer::Tokenizer tokenizer(tokenizer::parse_tokenizer_json(text, "x.json"), "x.json");
    if (tokenizer.encode("def f(x): <think>").empty()) return 1;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt && error.kind() != ErrorKind::kUnsupported) return 1;
    if (std::string(error.what()).find("x.json") == std::string::npos) return 1;
  }
  try {
    tokenizer::TokenizerDefinition definition;
    definition.tokens = {"a", "<|im_end|>"};
    tokenizer::add_tokenizer_config(definition, text, "c.json");
  } catch (const Error& error) {
    if (std::string(error.what()).find("c.json") == std::string::npos) return 1;
  }
  try {
    tokenizer::ChatOptions options;
    options.tools = parse_ordered_json(text, "line 1");
    const auto messages = tokenizer::messages_from_json(options.tools, "line 1");
    for (const tokenizer::ChatFormat format :
         {tokenizer::ChatFormat::kQwen2, tokenizer::ChatFormat::kQwen3, tokenizer::ChatFormat::kPlain})
      tokenizer::render_chat(format, messages, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  tokenizer::BpeTrainerOptions options;
  options.vocab_size = 264;
  return {tokenizer::write_tokenizer_json(tokenizer::train_bpe({"ab ab ab"}, options)),
          R"({"eos_token": {"content": "<|im_end|>"}, "chat_template": [{"name": "default", )"
          R"("template": "x"}], "added_tokens_decoder": {"1": {"content": "<|im_end|>"}}})",
          R"([{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", )"
          R"("content": "<think>a</think>b", "tool_calls": [{"function": {"name": "f", )"
          R"("arguments": {"x": 1.5}}}]}, {"role": "tool", "content": null}])"};
}
