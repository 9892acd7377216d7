#pragma once
// JSON <-> the engine's structs, for /generate (SGLang's form). docs/protocols.md, section Engine.
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::engine {

// Throws kUsage naming an unknown or wrong field, kUnsupported for one of SGLang's that is set and not implemented
// here.
SamplingParams sampling_from_json(const Json& json, const std::string& where);

// One request of a /generate body. A list of prompts makes several.
struct GenerateRequest {
  Request request;
  bool return_logprob = false, logprob_text = false;
};
struct GenerateBody {
  std::vector<GenerateRequest> requests;
  bool list = false;  // the reply is a list
  bool stream = false;
};
GenerateBody generate_from_json(const Json& body, const tokenizer::Tokenizer& tokenizer, const std::string& default_id);

// One object per sample of an output.
std::vector<Json> generate_to_json(const Output& output, const GenerateRequest& request,
                                   const tokenizer::Tokenizer& tokenizer);

}  // namespace tritonforge::engine
