#pragma once
// Python's json.dumps(value, ensure_ascii=False), which is what `tojson` is in a chat template.
#include <string>

#include "base/json.h"

namespace tritonforge::tokenizer {
std::string python_json(const OrderedJson& value);
}  // namespace tritonforge::tokenizer
