#pragma once
// GPT-2's alphabet: one printable character for each byte, which is how byte-level vocabularies are written down.
#include <optional>
#include <string>
#include <string_view>

namespace tritonforge::tokenizer {

std::string to_byte_alphabet(std::string_view bytes);
// nullopt where a character is not of the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace tritonforge::tokenizer
