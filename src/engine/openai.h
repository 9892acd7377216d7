#pragma once
// OpenAI's completions and chat completions over the engine's requests.
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::engine {

struct OpenAiRequest {
  std::vector<Request> requests;  // one a prompt; `n` samples each
  bool chat = false, stream = false, include_usage = false, log_probs = false;
  std::string id, model;
  int64_t created = 0;
};

// `body` is the request's text: its tools are printed with their keys in the order in which they came. Throws kUsage
// naming the field, kUnsupported for a field that is set and not implemented.
OpenAiRequest openai_from_json(const std::string& body, bool chat, const tokenizer::Tokenizer& tokenizer,
                               tokenizer::ChatFormat format, const std::string& model, const std::string& id);

// The whole reply, outputs in the order of the requests.
Json openai_reply(const OpenAiRequest& request, const std::vector<Output>& outputs,
                  const tokenizer::Tokenizer& tokenizer);

// What has been sent of one sample of a stream.
struct StreamedSample {
  size_t text = 0, tokens = 0;
  bool opened = false, finished = false;
};
// The chunks that a new output adds; `sent` has one entry per sample and is brought up to date. `first_index`: of this
// request's first sample among all choices.
std::vector<Json> openai_chunks(const OpenAiRequest& request, const Output& output, int64_t first_index,
                                std::vector<StreamedSample>& sent, const tokenizer::Tokenizer& tokenizer);
Json openai_usage_chunk(const OpenAiRequest& request, const std::vector<Output>& outputs);

}  // namespace tritonforge::engine
