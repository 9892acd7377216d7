#pragma once
// JSON <-> the engine's structs, for /generate (SGLang's form), and what OpenAI's form shares with it.
// docs/protocols.md, section Engine.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::engine {

// Throws kUsage naming an unknown or wrong field, kUnsupported for one of SGLang's that is set and not implemented
// here.
SamplingParams sampling_from_json(const Json& json, const std::string& where);
// What both forms spell alike: everything but the bounds of the length and the stops.
void read_sampling_fields(const Json& json, const std::string& where, SamplingParams& params);

// Throws kUnsupported naming a field that is set (neither absent, null nor one of `neutral`) and has no effect here.
void refuse_unless(const Json& object, const char* field, const std::vector<Json>& neutral, const std::string& where);
// A whole number, 3.0 too, of 64 bits: one that would be cut or wrapped is refused. Of a field: `fallback` where it is
// absent or null.
int64_t whole_number(const Json& value, const char* field, const std::string& where);
int64_t whole_field(const Json& object, const char* field, int64_t fallback, const std::string& where);
// Any 64 bits, with a sign or without.
std::optional<uint64_t> seed_field(const Json& object, const char* field, const std::string& where);
// A body's "timeout_s", above 0; and the deadline that it has with that of its request: the earlier one.
std::optional<double> timeout_field(const Json& body, const std::string& where);
Deadline sooner(Deadline deadline, std::optional<double> timeout_s);
// A text or a list of texts; a token id or a list of them.
std::vector<std::string> texts_from(const Json& value, const char* field, const std::string& where);
std::vector<int64_t> ids_from(const Json& value, const char* field, const std::string& where);

// One request of a /generate body. A list of prompts makes several.
struct GenerateRequest {
  Request request;
  bool return_logprob = false, logprob_text = false;
};
struct GenerateBody {
  std::vector<GenerateRequest> requests;
  bool list = false;  // the reply is a list
  bool stream = false;
  std::optional<double> timeout_s;
};
GenerateBody generate_from_json(const Json& body, const tokenizer::Tokenizer& tokenizer, const std::string& default_id);

// One object per sample of an output.
std::vector<Json> generate_to_json(const Output& output, const GenerateRequest& request,
                                   const tokenizer::Tokenizer& tokenizer);

}  // namespace tritonforge::engine
