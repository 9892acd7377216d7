#pragma once
// What the `tokenizers` library does for every code point, as ranges (tests/tools/make_unicode_tables.py).
#include <cstddef>
#include <cstdint>

namespace tritonforge::tokenizer::unicode {

struct CodePointRange {
  char32_t first, last;
};
struct CombiningRange {
  char32_t first, last;
  uint8_t combining_class;
};
struct Decomposition {  // canonical, by one step; second = 0 for a singleton
  char32_t from, first, second;
  bool composes;  // first + second becomes `from` again under NFC
};

extern const CodePointRange kLetters[], kNumbers[], kSpaces[];
extern const size_t kLetters_size, kNumbers_size, kSpaces_size;
extern const CombiningRange kCombining[];
extern const size_t kCombining_size;
extern const Decomposition kDecompositions[];
extern const size_t kDecompositions_size;

}  // namespace tritonforge::tokenizer::unicode
