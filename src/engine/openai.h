#pragma once
// OpenAI's completions and chat completions over the engine's requests: reading a body (openai.cpp) and writing the
// replies (openai_reply.cpp).
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/assistant_text.h"
#include "engine/request.h"
#include "net/http.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::engine {

struct OpenAiRequest {
  std::vector<Request> requests;  // one a prompt; `n` samples each, or `best_of`
  bool chat = false, stream = false, include_usage = false, log_probs = false;
  int64_t n = 1;                          // choices a prompt: the most likely ones where there are more samples
  bool echo = false;                      // a completion's text begins with its prompt
  bool tools = false, reasoning = false;  // of a chat: its text is taken apart (assistant_text.h)
  std::string id, model;
  int64_t created = 0;
  std::optional<double> timeout_s;
};

// `body` is the request's text: its tools are printed with their keys in the order in which they came. Throws kUsage
// naming the field, an unknown one with the nearest known, kUnsupported for a field that is set and not implemented.
OpenAiRequest openai_from_json(const std::string& body, bool chat, const tokenizer::Tokenizer& tokenizer,
                               tokenizer::ChatFormat format, const std::string& model, const std::string& id);

// The prompt of a chat body's "messages", "tools" and "chat_template_kwargs".
std::vector<int64_t> chat_prompt(const OrderedJson& body, const tokenizer::Tokenizer& tokenizer,
                                 tokenizer::ChatFormat format, const std::string& where);

// The whole reply, outputs in the order of the requests.
Json openai_reply(const OpenAiRequest& request, const std::vector<Output>& outputs,
                  const tokenizer::Tokenizer& tokenizer);

// What has been sent of one sample of a stream.
struct StreamedSample {
  size_t text = 0, tokens = 0, calls = 0;
  size_t characters = 0;  // of the tokens' texts: where the next one begins (text_offset)
  bool opened = false, finished = false;
  std::optional<AssistantText> parser;  // of a chat that is taken apart
};
// The chunks that a new output adds; `sent` has one entry per sample and is brought up to date. `index`: of the
// request among the requests.
std::vector<Json> openai_chunks(const OpenAiRequest& request, const Output& output, size_t index,
                                std::vector<StreamedSample>& sent, const tokenizer::Tokenizer& tokenizer);
Json openai_usage_chunk(const OpenAiRequest& request, const std::vector<Output>& outputs);

// An error as OpenAI's clients read it: {"error": {"message", "type", "param", "code"}}.
net::Response openai_error(const std::exception& error);

}  // namespace tritonforge::engine
