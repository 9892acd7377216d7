#pragma once
#include <string_view>

namespace tritonforge::evaluate {

extern const std::string_view source_sealed_words_h;  // sealed_words.h

}  // namespace tritonforge::evaluate
