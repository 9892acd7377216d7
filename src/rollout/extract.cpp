#include "rollout/extract.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/text.h"

namespace tritonforge::rollout {
namespace {

struct Block {
  std::string language;
  std::string_view code;
  bool closed = false;
};

struct Line {
  std::string_view text;  // without the newline
  size_t begin, end;      // end: one past the newline
};

Line line_at(std::string_view text, size_t begin) {
  const size_t newline = text.find('\n', begin);
  const size_t stop = newline == std::string_view::npos ? text.size() : newline;
  return {text.substr(begin, stop - begin), begin, newline == std::string_view::npos ? text.size() : newline + 1};
}

size_t backticks_of(std::string_view line) {
  const size_t other = line.find_first_not_of('`');
  const size_t count = other == std::string_view::npos ? line.size() : other;
  return count >= 3 ? count : 0;
}

std::vector<Block> blocks_of(std::string_view text) {
  std::vector<Block> blocks;
  size_t opening = 0;  // backticks of the open fence, 0 outside a block
  size_t code_begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Line line = line_at(text, at);
    const std::string_view bare = trimmed(line.text);
    const size_t ticks = backticks_of(bare);
    if (opening == 0 && ticks > 0 && bare.find('`', ticks) == std::string_view::npos) {
      opening = ticks;
      code_begin = line.end;
      const std::string_view info = trimmed(bare.substr(ticks));
      blocks.push_back({lowered(info.substr(0, info.find_first_of(" \t{"))), {}, false});
    } else if (opening > 0 && ticks >= opening && ticks == bare.size()) {
      blocks.back().code = text.substr(code_begin, line.begin - code_begin);
      blocks.back().closed = true;
      opening = 0;
    }
    at = line.end;
  }
  return blocks;
}

// A line that begins with `word` (not indented) and goes on with no name character.
bool has_line_with(std::string_view code, std::string_view word) {
  for (size_t at = 0; at < code.size();) {
    const Line line = line_at(code, at);
    if (line.text.starts_with(word)) {
      const char next = line.text.size() > word.size() ? line.text[word.size()] : ' ';
      if (std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_') return true;
    }
    at = line.end;
  }
  return false;
}

bool begins_like_python(std::string_view text) {
  constexpr std::array<std::string_view, 8> kBeginnings = {"import ", "from ", "class ", "def ",
                                                           "@",       "#",     "\"\"\"", "'''"};
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view b) { return text.substr(begin).starts_with(b); });
}

bool is_python(const std::string& language) {
  return language == "python" || language == "py" || language == "python3";
}

std::string with_newline(std::string_view code) {
  std::string out(code);
  if (!out.empty() && out.back() != '\n') out.push_back('\n');
  return out;
}

}  // namespace

std::string_view without_thinking(std::string_view completion, bool* unclosed) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  *unclosed = false;
  std::string_view rest = completion;
  const size_t close = rest.find(kClose);
  const size_t open = rest.find(kOpen);
  const size_t first = rest.find_first_not_of(" \t\r\n");
  if (close != std::string_view::npos && (open == std::string_view::npos || open > close))
    return rest.substr(close + kClose.size());
  if (open == std::string_view::npos || open != first) return rest;
  if (close == std::string_view::npos) {
    *unclosed = true;
    return {};
  }
  return rest.substr(close + kClose.size());
}

Extraction extract_code(std::string_view completion, BlockChoice choice) {
  bool unclosed_thinking = false;
  const std::string_view text = without_thinking(completion, &unclosed_thinking);
  if (unclosed_thinking) return {Extracted::kTruncated, "", false};

  std::vector<Block> blocks = blocks_of(text);
  const bool cut = !blocks.empty() && !blocks.back().closed;
  if (choice == BlockChoice::kLast) std::reverse(blocks.begin(), blocks.end());
  const auto pick = [&](auto&& wanted) -> const Block* {
    const auto found = std::find_if(blocks.begin(), blocks.end(),
                                    [&](const Block& b) { return b.closed && wanted(b); });
    return found == blocks.end() ? nullptr : &*found;
  };
  const Block* block = pick([](const Block& b) { return has_line_with(b.code, "class ModelNew"); });
  // A cut block is the real answer where no complete block is one: examples before it must not stand in for it.
  if (block == nullptr && cut) return {Extracted::kTruncated, "", true};
  if (block == nullptr) block = pick([](const Block& b) { return is_python(b.language); });
  if (block == nullptr) block = pick([](const Block& b) { return true; });
  if (block != nullptr) {
    if (block->code.find_first_not_of(" \t\r\n") == std::string_view::npos) return {Extracted::kNone, "", true};
    return {Extracted::kFound, with_newline(block->code), true};
  }
  if (begins_like_python(text) && has_line_with(text, "class ModelNew") &&
      text.find("def forward(") != std::string_view::npos) {
    return {Extracted::kFound, with_newline(text), false};
  }
  return {};
}

}  // namespace tritonforge::rollout
