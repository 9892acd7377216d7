#pragma once
// Finds added tokens in a text.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge::tokenizer {

// Finds the leftmost added token of a text, and of those that begin there the longest.
class AddedTokenFinder {
 public:
  struct Match {
    size_t at, size;  // at = npos: none
    int64_t id;
  };

  void add(const std::string& content, int64_t id) {
    auto& bucket = by_first_byte_[static_cast<uint8_t>(content[0])];
    bucket.push_back({content, id});
    std::stable_sort(bucket.begin(), bucket.end(),
                     [](const auto& a, const auto& b) { return a.content.size() > b.content.size(); });
    if (first_bytes_.find(content[0]) == std::string::npos) first_bytes_.push_back(content[0]);
  }

  Match find(std::string_view text, size_t from) const {
    while (!first_bytes_.empty()) {
      const size_t at = first_bytes_.size() == 1 ? text.find(first_bytes_[0], from)
                                                 : text.find_first_of(first_bytes_, from);
      if (at == std::string_view::npos) break;
      for (const auto& token : by_first_byte_[static_cast<uint8_t>(text[at])]) {
        if (text.substr(at, token.content.size()) == token.content) return {at, token.content.size(), token.id};
      }
      from = at + 1;
    }
    return {std::string_view::npos, 0, 0};
  }

  // Calls piece(text between) and token(id) from left to right.
  template <typename Piece, typename Token>
  void split(std::string_view text, Piece&& piece, Token&& token) const {
    size_t at = 0;
    while (at < text.size()) {
      const Match match = find(text, at);
      const size_t end = std::min(match.at, text.size());
      if (end > at) piece(text.substr(at, end - at));
      if (match.at == std::string_view::npos) return;
      token(match.id);
      at = match.at + match.size;
    }
  }

 private:
  struct Entry {
    std::string content;
    int64_t id;
  };
  std::vector<Entry> by_first_byte_[256];
  std::string first_bytes_;
};

}  // namespace tritonforge::tokenizer
