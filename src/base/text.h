#pragma once
// Pieces of text that several folders cut and write alike. ASCII, but where UTF-8 is said: other bytes stay as they
// are.
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge {

// Without blanks, tabs and ends of lines around it.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Whether a byte of UTF-8 is behind the first of its character.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The largest cut <= at that is not inside a character of UTF-8.
inline size_t character_start(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && continues_character(text[at])) --at;
  return at;
}

std::string lowered(std::string_view text);  // whatever the locale

// "a, b and 3 more": so many of them that a line stays one that is read.
std::string first_of(const std::vector<std::string>& names, size_t most = 5);

// Of any bytes one segment of a path, one value of a query, or a file's name: what RFC 3986 does not call unreserved
// is escaped, '/' and '%' too. percent_decode() gives them back. "." and ".." stay what they are.
std::string percent_encode(std::string_view text);
// "%41+b" -> "A b" where plus_is_space; a broken escape stays as it is.
std::string percent_decode(std::string_view text, bool plus_is_space);

}  // namespace tritonforge
