#pragma once
// Routes about text that generate nothing: /tokenize and /detokenize as SGLang and vLLM have them, and those of
// OpenAI's and SGLang's that this engine does not serve, each refused by name. docs/protocols.md, section Engine.
#include "engine/engine.h"
#include "net/http.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::engine {

void add_text_routes(net::HttpServer& server, const Engine& engine, tokenizer::ChatFormat format);

}  // namespace tritonforge::engine
