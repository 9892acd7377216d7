#include "rollout/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tritonforge::rollout {

std::string clip_text(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  const size_t room = max_bytes >= 3 ? max_bytes - 3 : 0;
  return std::string(text.substr(0, character_start(text, room))) + (max_bytes >= 3 ? "..." : "");
}

std::string clip_middle(std::string_view text, size_t max_bytes) {
  constexpr size_t kMarker = 48;
  if (text.size() <= max_bytes) return std::string(text);
  if (max_bytes <= 2 * kMarker) return clip_text(text, max_bytes);
  const size_t room = max_bytes - kMarker;
  const size_t head = character_start(text, room * 2 / 3);
  size_t tail = text.size() - (room - room * 2 / 3);
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return fmt::format("{}\n[... {} bytes left out ...]\n{}", text.substr(0, head), tail - head, text.substr(tail));
}

std::string sanitise(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1B && i + 1 < text.size() && text[i + 1] == '[') {  // CSI ... final byte
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
      continue;
    }
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) continue;
    if (byte == '|' && !out.empty() && out.back() == '<') out.push_back(' ');
    out.push_back(text[i]);
  }
  return out;
}

std::string first_lines(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty() && out.size() < max_bytes) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    if (!line.empty()) {
      if (!out.empty()) out += " | ";
      out += line;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return clip_text(out, max_bytes);
}

}  // namespace tritonforge::rollout
