#include "tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/text.h"
#include "tokenizer/unicode_tables.h"

namespace tritonforge::tokenizer::unicode {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr char32_t kHangulFirst = 0xAC00, kHangulCount = 11172;
constexpr char32_t kLeadFirst = 0x1100, kLeadCount = 19;
constexpr char32_t kVowelFirst = 0x1161, kVowelCount = 21;
constexpr char32_t kTrailFirst = 0x11A7, kTrailCount = 28;  // the first is "no trail"

bool within(char32_t point, char32_t first, char32_t count) { return point >= first && point < first + count; }

struct Mark {
  char32_t point;
  uint8_t combining_class;
};

// Classes and combining class of every code point, in pages of 256 that are shared where they are equal.
class Tables {
 public:
  Tables() {
    std::vector<uint8_t> classes(kLast + 1), combining(kLast + 1);
    const auto mark = [&](const CodePointRange* ranges, size_t count, uint8_t flag) {
      for (size_t i = 0; i < count; ++i) {
        for (char32_t c = ranges[i].first; c <= ranges[i].last; ++c) classes[c] |= flag;
      }
    };
    mark(kLetters, kLetters_size, kLetter);
    mark(kNumbers, kNumbers_size, kNumber);
    mark(kSpaces, kSpaces_size, kSpace);
    for (size_t i = 0; i < kCombining_size; ++i) {
      for (char32_t c = kCombining[i].first; c <= kCombining[i].last; ++c) {
        combining[c] = kCombining[i].combining_class;
        classes[c] |= kUnstable;
      }
    }
    for (size_t i = 0; i < kDecompositions_size; ++i) {
      const Decomposition& d = kDecompositions[i];
      decompositions_.emplace(d.from, &d);
      if (!d.composes) continue;
      compositions_.emplace(key(d.first, d.second), d.from);
      classes[d.second] |= kUnstable;
    }
    for (char32_t c = 0; c < kVowelCount; ++c) classes[kVowelFirst + c] |= kUnstable;
    for (char32_t c = 1; c < kTrailCount; ++c) classes[kTrailFirst + c] |= kUnstable;
    pack(combining, combining_index_, combining_pages_);
    for (size_t i = 0; i < kDecompositions_size; ++i) {
      const char32_t c = kDecompositions[i].from;
      std::vector<Mark> marks;
      decompose(c, marks);
      if (compose(marks) != std::u32string(1, c)) classes[c] |= kUnstable;
    }
    pack(classes, class_index_, class_pages_);
  }

  uint8_t classes_of(char32_t point) const { return class_pages_[class_index_[point >> 8]][point & 255]; }

  // Appends the full canonical decomposition, its marks in the order in which they came.
  void decompose(char32_t point, std::vector<Mark>& out) const {
    if (within(point, kHangulFirst, kHangulCount)) {
      const char32_t index = point - kHangulFirst;
      out.push_back({kLeadFirst + index / (kVowelCount * kTrailCount), 0});
      out.push_back({kVowelFirst + index / kTrailCount % kVowelCount, 0});
      if (index % kTrailCount) out.push_back({kTrailFirst + index % kTrailCount, 0});
      return;
    }
    const auto found = decompositions_.find(point);
    if (found != decompositions_.end()) {
      decompose(found->second->first, out);
      if (found->second->second) decompose(found->second->second, out);
      return;
    }
    out.push_back({point, combining_of(point)});
  }

  // The canonical ordering and composition algorithms (Unicode 3.11, D109 and D117).
  std::u32string compose(std::vector<Mark>& marks) const {
    sort_between_starters(marks);
    std::u32string out;
    size_t starter = std::u32string::npos;
    uint8_t last_class = 0;
    for (const Mark& mark : marks) {
      if (starter != std::u32string::npos) {
        const bool blocked = out.size() - 1 != starter && last_class >= mark.combining_class;
        const char32_t composed = blocked ? 0 : compose(out[starter], mark.point);
        if (composed) {
          out[starter] = composed;
          continue;
        }
      }
      if (mark.combining_class == 0) starter = out.size();
      last_class = mark.combining_class;
      out.push_back(mark.point);
    }
    return out;
  }

 private:
  static void sort_between_starters(std::vector<Mark>& marks) {
    const auto starts = [](const Mark& mark) { return mark.combining_class == 0; };
    for (auto first = marks.begin(); first != marks.end();) {
      const auto last = std::find_if(first, marks.end(), starts);
      std::stable_sort(first, last, [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
      first = std::find_if_not(last, marks.end(), starts);
    }
  }

  using Page = std::array<uint8_t, 256>;
  static uint64_t key(char32_t first, char32_t second) { return static_cast<uint64_t>(first) << 32 | second; }
  uint8_t combining_of(char32_t point) const { return combining_pages_[combining_index_[point >> 8]][point & 255]; }

  char32_t compose(char32_t first, char32_t second) const {
    if (within(first, kLeadFirst, kLeadCount) && within(second, kVowelFirst, kVowelCount)) {
      return kHangulFirst + ((first - kLeadFirst) * kVowelCount + (second - kVowelFirst)) * kTrailCount;
    }
    if (within(first, kHangulFirst, kHangulCount) && (first - kHangulFirst) % kTrailCount == 0 &&
        within(second, kTrailFirst + 1, kTrailCount - 1)) {
      return first + (second - kTrailFirst);
    }
    const auto found = compositions_.find(key(first, second));
    return found == compositions_.end() ? 0 : found->second;
  }

  static void pack(const std::vector<uint8_t>& values, std::vector<uint8_t>& index, std::vector<Page>& pages) {
    for (size_t start = 0; start < values.size(); start += 256) {
      Page page;
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(start), 256, page.begin());
      const auto found = std::find(pages.begin(), pages.end(), page);
      index.push_back(static_cast<uint8_t>(found - pages.begin()));
      if (found == pages.end()) pages.push_back(page);
    }
  }

  std::unordered_map<char32_t, const Decomposition*> decompositions_;
  std::unordered_map<uint64_t, char32_t> compositions_;
  std::vector<uint8_t> class_index_, combining_index_;
  std::vector<Page> class_pages_, combining_pages_;
};

const Tables& tables() {
  static const Tables tables;
  return tables;
}

const char* skip_ascii(const char* at, const char* end) {
  for (uint64_t word; end - at >= 8; at += 8) {
    std::memcpy(&word, at, 8);
    if (word & 0x8080808080808080ull) break;
  }
  while (at < end && static_cast<uint8_t>(*at) < 0x80) ++at;
  return at;
}

// First unstable character at or after `at`; *before is set to the start of the character before it.
const char* find_unstable(const char* at, const char* end, const char** before) {
  while (at < end) {
    if (static_cast<uint8_t>(*at) < 0x80) {
      at = skip_ascii(at, end);
      *before = at - 1;
      continue;
    }
    const Character c = decode_utf8(at, end);
    if (c.valid && tables().classes_of(c.point) & kUnstable) return at;
    *before = at;
    at += c.size;
  }
  return end;
}

}  // namespace

Character decode_utf8(const char* at, const char* end) {
  const auto first = static_cast<uint8_t>(*at);
  if (first < 0x80) return {first, 1, true, false};
  uint32_t length;
  uint8_t low = 0x80, high = 0xBF;  // what the second byte may be (Unicode table 3-7)
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {0, 1, false, false};
  }
  char32_t point = first & (0x7F >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if (at + i == end) return {0, i, false, true};
    const auto byte = static_cast<uint8_t>(at[i]);
    if (i == 1 ? byte < low || byte > high : !continues_character(at[i])) return {0, i, false, false};
    point = point << 6 | (byte & 0x3F);
  }
  return {point, length, true, false};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  const char* end = text.data() + text.size();
  for (const char* at = skip_ascii(text.data(), end); at < end; at = skip_ascii(at, end)) {
    const Character c = decode_utf8(at, end);
    if (!c.valid) return false;
    at += c.size;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string out;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Character c = decode_utf8(at, end);
    if (c.valid) out.append(at, c.size);
    else out += "\xEF\xBF\xBD";
    at += c.size;
  }
  return out;
}

size_t unfinished_tail(std::string_view text) {
  const size_t longest = std::min<size_t>(3, text.size());
  for (size_t size = longest; size > 0; --size) {
    const char* at = text.data() + text.size() - size;
    if (continues_character(*at)) continue;
    const Character c = decode_utf8(at, text.data() + text.size());
    if (c.unfinished && c.size == size) return size;
  }
  return 0;
}

uint8_t classes_of(char32_t point) { return tables().classes_of(point); }

bool may_change_under_nfc(std::string_view text) {
  const char* end = text.data() + text.size();
  const char* before = text.data();
  return find_unstable(text.data(), end, &before) != end;
}

std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* end = text.data() + text.size();
  std::vector<Mark> marks;
  const char* at = text.data();
  while (at < end) {
    // A stretch that NFC can change: from the stable character before an unstable one to the next stable one.
    const char* start = at;
    const char* unstable = find_unstable(at, end, &start);
    if (unstable == end) start = end;
    out.append(at, start);
    marks.clear();
    for (at = start; at < end;) {
      const Character c = decode_utf8(at, end);
      if (!c.valid) {
        if (at >= unstable) break;  // invalid bytes are kept, and nothing composes across them
        out.append(at, c.size);
      } else {
        if (at > unstable && !(tables().classes_of(c.point) & kUnstable)) break;
        tables().decompose(c.point, marks);
      }
      at += c.size;
    }
    for (const char32_t c : tables().compose(marks)) append_utf8(out, c);
  }
  return out;
}

}  // namespace tritonforge::tokenizer::unicode
