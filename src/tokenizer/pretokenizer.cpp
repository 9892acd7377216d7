#include "tokenizer/pretokenizer.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode.h"

namespace tritonforge::tokenizer {
namespace {

using unicode::kLetter;
using unicode::kNumber;
using unicode::kSpace;

enum : uint8_t { kNewline = 16, kBeyondAscii = 32 };

constexpr std::array<uint8_t, 256> make_ascii_classes() {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = classes[c - 'a' + 'A'] = kLetter;
  for (int c = '0'; c <= '9'; ++c) classes[c] = kNumber;
  for (int c = '\t'; c <= '\r'; ++c) classes[c] = kSpace;
  classes[' '] = kSpace;
  classes['\r'] |= kNewline;
  classes['\n'] |= kNewline;
  for (int c = 128; c < 256; ++c) classes[c] = kBeyondAscii;
  return classes;
}
constexpr auto kAsciiClasses = make_ascii_classes();

struct Peek {
  uint32_t size;
  uint8_t classes;
  bool is(uint8_t flags) const { return classes & flags; }
};

Peek peek_slow(const char* at, const char* end) {
  const unicode::Character c = unicode::decode_utf8(at, end);
  return {c.size, c.valid ? unicode::classes_of(c.point) : uint8_t{0}};
}

inline Peek peek(const char* at, const char* end) {
  const uint8_t classes = kAsciiClasses[static_cast<uint8_t>(*at)];
  return classes & kBeyondAscii ? peek_slow(at, end) : Peek{1, classes};
}

const char* skip_letters(const char* at, const char* end) {
  while (at < end) {
    const Peek c = peek(at, end);
    if (!c.is(kLetter)) break;
    at += c.size;
  }
  return at;
}

// [^\s\p{L}\p{N}]+[\r\n]*
const char* skip_punctuation(const char* at, const char* end) {
  while (at < end) {
    const Peek c = peek(at, end);
    if (c.is(kSpace | kLetter | kNumber)) break;
    at += c.size;
  }
  while (at < end && (*at == '\r' || *at == '\n')) ++at;
  return at;
}

// \s*[\r\n]+ | \s+(?!\S) | \s+
const char* skip_space(const char* at, const char* end) {
  const char* last_start = at;
  const char* after_newline = nullptr;
  const char* run = at;
  while (run < end) {
    const Peek c = peek(run, end);
    if (!c.is(kSpace)) break;
    last_start = run;
    run += c.size;
    if (c.is(kNewline)) after_newline = run;
  }
  if (after_newline) return after_newline;
  return run == end || last_start == at ? run : last_start;
}

// '(s|t|re|ve|m|ll|d) in any case; the long s folds to s. 0 where it is none of them.
size_t contraction_size(const char* at, const char* end) {
  const size_t left = static_cast<size_t>(end - at);
  if (left < 2) return 0;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const char first = lower(at[1]);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (left < 3) return 0;
  const char second = lower(at[2]);
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  return at[1] == '\xC5' && at[2] == '\xBF' ? 3 : 0;
}

}  // namespace

const char* next_word(const char* at, const char* end, int most_digits) {
  const Peek first = peek(at, end);
  if (first.is(kLetter)) return skip_letters(at + first.size, end);
  if (first.is(kNumber)) {
    at += first.size;
    for (int digits = 1; digits < most_digits && at < end; ++digits) {
      const Peek next = peek(at, end);
      if (!next.is(kNumber)) break;
      at += next.size;
    }
    return at;
  }
  if (*at == '\'') {
    if (const size_t size = contraction_size(at, end)) return at + size;
  }
  const char* second_at = at + first.size;
  if (second_at < end && !first.is(kNewline)) {
    const Peek second = peek(second_at, end);
    if (second.is(kLetter)) return skip_letters(second_at + second.size, end);
    if (*at == ' ' && !second.is(kSpace | kNumber)) return skip_punctuation(second_at, end);
  }
  return first.is(kSpace) ? skip_space(at, end) : skip_punctuation(at, end);
}

}  // namespace tritonforge::tokenizer
