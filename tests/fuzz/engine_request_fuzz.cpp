// libs: tf_engine
// Whatever a /generate or OpenAI body holds, it becomes requests or one Error; nothing else may escape.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/openai.h"
#include "engine/wire.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/definition.h"

using namespace tritonforge;

namespace {

const tokenizer::Tokenizer& byte_tokenizer() {
  static const tokenizer::Tokenizer made = [] {
    tokenizer::TokenizerDefinition definition;
    for (int byte = 0; byte < 256; ++byte)
      definition.tokens.push_back(tokenizer::to_byte_alphabet(std::string(1, static_cast<char>(byte))));
    return tokenizer::Tokenizer(std::move(definition));
  }();
  return made;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    for (const auto& each :
         engine::generate_from_json(parse_json(text, "POST /generate"), byte_tokenizer(), "id").requests) {
      each.request.sampling.validate(256);
      each.request.log_probs.validate(256, std::ssize(each.request.prompt_ids));
    }
  } catch (const Error&) {}
  for (const bool chat : {false, true}) {
    try {
      for (const auto& each :
           engine::openai_from_json(text, chat, byte_tokenizer(), tokenizer::ChatFormat::kPlain, "m", "id").requests) {
        each.sampling.validate(256);
        each.log_probs.validate(256, std::ssize(each.prompt_ids));
      }
    } catch (const Error&) {}
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"text": "a", "rid": "x", "stream": true, "return_logprob": true, )"
      R"("sampling_params": {"temperature": 0.5, "stop": ["a", "b"], "n": 2}})",
      R"({"input_ids": [[1, 2], [3]], "rid": ["a", "b"], "sampling_params": [{"top_k": 3}, {"stop_token_ids": [1]}]})",
      R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "logprobs": true, "stop": "a", )"
      R"("stream_options": {"include_usage": true}})",
      R"({"text": ["a", "b"], "return_logprob": [true, false], "logprob_start_len": [0, -1], "top_logprobs_num": 2, )"
      R"("token_ids_logprob": [[1], null], "sampling_params": {"logit_bias": {"5": 1.5}, "min_new_tokens": 2, )"
      R"("frequency_penalty": 0.5, "repetition_penalty": 1.1, "regex": null}})",
      R"({"messages": [{"role": "user", "content": "x"}], "logprobs": true, "top_logprobs": 3, "logit_bias": {"1": 1},)"
      R"("response_format": {"type": "text"}, "tool_choice": "auto", "separate_reasoning": true, "rid": "r"})",
      R"({"prompt": [1, 2], "echo": true, "best_of": 3, "n": 2, "logprobs": 2, "min_tokens": 1, "presence_penalty":1})",
      R"({"prompt": ["a", "b"], "max_tokens": 5, "logprobs": 1, "seed": 3, )"
      R"("chat_template_kwargs": {"enable_thinking": false}})"};
}
