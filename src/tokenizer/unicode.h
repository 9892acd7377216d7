#pragma once
// UTF-8, the character classes of the pre-tokenizer pattern, and NFC: each as the `tokenizers` library has them.
#include <cstdint>
#include <string>
#include <string_view>

namespace tritonforge::tokenizer::unicode {

// One character of UTF-8, or the longest part of one that is not valid (what U+FFFD replaces once).
struct Character {
  char32_t point = 0;
  uint32_t size = 0;  // bytes, at least 1
  bool valid = false;
  bool unfinished = false;  // not valid only because the text ends inside it
};
Character decode_utf8(const char* at, const char* end);  // at < end
void append_utf8(std::string& out, char32_t point);
bool is_valid_utf8(std::string_view text);
std::string replace_invalid_utf8(std::string_view text);  // as Python's errors="replace" and Rust's lossy reading
// Bytes at the end that begin a character which more bytes could finish.
size_t unfinished_tail(std::string_view text);

enum : uint8_t {
  kLetter = 1,    // \p{L}
  kNumber = 2,    // \p{N}
  kSpace = 4,     // \s
  kUnstable = 8,  // NFC may change it, or what is beside it
};
uint8_t classes_of(char32_t point);

// False where the text is certainly in NFC already (no unstable character).
bool may_change_under_nfc(std::string_view text);
// Invalid bytes stay as they are.
std::string nfc(std::string_view text);

}  // namespace tritonforge::tokenizer::unicode
