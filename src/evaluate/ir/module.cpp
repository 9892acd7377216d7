#include "evaluate/ir/module.h"

#include "base/error.h"

namespace tritonforge::evaluate::ir {

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kI1: return "i1";
    case Kind::kI8: return "i8";
    case Kind::kI16: return "i16";
    case Kind::kI32: return "i32";
    case Kind::kI64: return "i64";
    case Kind::kF8E4M3: return "f8E4M3FN";
    case Kind::kF8E5M2: return "f8E5M2";
    case Kind::kF16: return "f16";
    case Kind::kBF16: return "bf16";
    case Kind::kF32: return "f32";
    case Kind::kF64: return "f64";
    case Kind::kPointer: return "pointer";
    case Kind::kTuple: return "block pointer";
  }
  return "?";
}

std::string to_string(const Type& type) {
  if (!type.block) return std::string(name_of(type.kind));
  return fmt::format("tensor<{}x{}>", fmt::join(type.shape, "x"), name_of(type.kind));
}

const Function* Module::find(std::string_view name) const {
  for (const auto& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

const Function& Module::entry() const {
  const Function* found = nullptr;
  for (const auto& function : functions) {
    if (!function.is_public) continue;
    if (found) fail(ErrorKind::kUsage, "Triton IR has two public functions, {} and {}", found->name, function.name);
    found = &function;
  }
  if (!found) fail(ErrorKind::kUsage, "Triton IR has no public function");
  return *found;
}

bool cuts_to_tf32(std::string_view text) {
  constexpr std::string_view kDot = "tt.dot ";
  for (size_t at = text.find(kDot); at != std::string_view::npos; at = text.find(kDot, at + 1)) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (line.find("inputPrecision = tf32 :") != std::string_view::npos &&
        line.find("xf32> *") != std::string_view::npos)
      return true;
  }
  return false;
}

std::string without_locations(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 2);
  bool line_start = true;
  for (size_t i = 0; i < text.size();) {
    if (line_start && text.substr(i, 4) == "#loc") {
      const size_t end = text.find('\n', i);
      i = end == std::string_view::npos ? text.size() : end + 1;
      continue;
    }
    line_start = text[i] == '\n';
    if (text[i] == '"') {  // a string is kept whole
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      out.append(text.substr(i, end - i));
      i = end;
      continue;
    }
    if (text.substr(i, 5) == " loc(") {
      int depth = 0;
      size_t end = i + 4;
      for (; end < text.size(); ++end) {
        if (text[end] == '"') {
          for (++end; end < text.size() && text[end] != '"'; ++end) end += text[end] == '\\';
          continue;
        }
        if (text[end] == '(') ++depth;
        if (text[end] == ')' && --depth == 0) break;
      }
      i = std::min(end + 1, text.size());
      continue;
    }
    out += text[i++];
  }
  return out;
}

}  // namespace tritonforge::evaluate::ir
