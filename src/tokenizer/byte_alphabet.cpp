#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode.h"

namespace tritonforge::tokenizer {
namespace {

constexpr int kLastCharacter = 0x143;  // 256 + the 68 bytes that are not printable themselves - 1

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr auto kCharacterOf = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) characters[byte] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  return characters;
}();

constexpr auto kByteOf = [] {
  std::array<int16_t, kLastCharacter + 1> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacterOf[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) unicode::append_utf8(out, kCharacterOf[static_cast<uint8_t>(byte)]);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string out;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const unicode::Character c = unicode::decode_utf8(at, end);
    if (!c.valid || c.point > kLastCharacter || kByteOf[c.point] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kByteOf[c.point]));
    at += c.size;
  }
  return out;
}

}  // namespace tritonforge::tokenizer
