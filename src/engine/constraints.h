#pragma once
// Constrained output (JSON schemas, regular expressions, grammars): not implemented. Whoever asks for it in any of the
// spellings of SGLang, vLLM and OpenAI is told so by name; an answer that is merely likely to fit is never passed off
// as one that must. docs/protocols.md says why.
#include <string>
#include <vector>

#include "base/json.h"

namespace tritonforge::engine {

const std::vector<std::string>& constraint_fields();
// Throws kUnsupported naming the field where `object` asks for a constraint; null, "", {} and [] ask for none.
void refuse_constraints(const Json& object, const std::string& where);

}  // namespace tritonforge::engine
