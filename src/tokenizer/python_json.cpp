#include "tokenizer/python_json.h"

#include <charconv>
#include <cmath>

namespace tritonforge::tokenizer {
namespace {

void write_text(std::string_view text, std::string& out) {
  out.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) out += fmt::format("\\u{:04x}", static_cast<int>(c));
        else out.push_back(c);
    }
  }
  out.push_back('"');
}

// repr(float): the shortest digits that read back the same, with an exponent below 1e-4 and from 1e16 on.
void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char text[64];
  const auto scientific = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  const std::string_view shortest(text, static_cast<size_t>(scientific.ptr - text));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* digits = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits, scientific.ptr, exponent);
  if (exponent < -4 || exponent >= 16) {
    out += shortest;
    return;
  }
  const auto fixed = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  const std::string_view plain(text, static_cast<size_t>(fixed.ptr - text));
  out += plain;
  if (plain.find('.') == std::string_view::npos) out += ".0";
}

void write(const OrderedJson& value, std::string& out) {
  if (value.is_string()) {
    write_text(value.get_ref<const std::string&>(), out);
  } else if (value.is_number_float()) {
    write_number(value.get<double>(), out);
  } else if (value.is_array()) {
    out.push_back('[');
    bool first = true;
    for (const OrderedJson& item : value) {
      if (!first) out += ", ";
      first = false;
      write(item, out);
    }
    out.push_back(']');
  } else if (value.is_object()) {
    out.push_back('{');
    bool first = true;
    for (const auto& [key, item] : value.items()) {
      if (!first) out += ", ";
      first = false;
      write_text(key, out);
      out += ": ";
      write(item, out);
    }
    out.push_back('}');
  } else {
    out += value.dump();
  }
}

}  // namespace

std::string python_json(const OrderedJson& value) {
  std::string out;
  write(value, out);
  return out;
}

}  // namespace tritonforge::tokenizer
