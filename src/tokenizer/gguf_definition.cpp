#include <unordered_map>

#include "base/error.h"
#include "base/gguf.h"
#include "tokenizer/definition.h"
#include "tokenizer/unicode.h"

namespace tritonforge::tokenizer {
namespace {

// tokenizer.ggml.token_type (llama.cpp's llama_token_type).
enum GgmlTokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

class GgufReader {
 public:
  explicit GgufReader(const fs::path& path) : file_(path) {}

  TokenizerDefinition read() {
    expect("tokenizer.ggml.model", "gpt2");
    expect("tokenizer.ggml.pre", "qwen2");
    for (const char* key : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"}) {
      if (file_.has(key) && file_.boolean(key)) fail(ErrorKind::kUnsupported, "{}: {} = true", name(), key);
    }
    read_tokens();
    for (const std::string& line : file_.texts("tokenizer.ggml.merges")) add_merge(line);
    if (file_.has("tokenizer.chat_template")) read_chat_template();
    if (file_.has("tokenizer.ggml.eos_token_id")) read_eos();
    return std::move(definition_);
  }

 private:
  std::string name() const { return file_.path().string(); }

  void expect(const char* key, const std::string& understood) const {
    const std::string& found = file_.text(key);
    if (found != understood) {
      fail(ErrorKind::kUnsupported, "{}: {} = '{}' is not understood ('{}' is)", name(), key, found, understood);
    }
  }

  void read_tokens() {
    const auto& tokens = file_.texts("tokenizer.ggml.tokens");
    const auto& types = file_.integers("tokenizer.ggml.token_type");
    if (tokens.size() != types.size()) {
      fail(ErrorKind::kCorrupt, "{}: {} tokens with {} types", name(), tokens.size(), types.size());
    }
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (types[id] == kUnused) continue;  // padding of the embedding, in no text
      const bool added = types[id] == kControl || types[id] == kUserDefined;
      if (types[id] != kNormal && !added) {
        fail(ErrorKind::kUnsupported, "{}: token {} '{}' is of type {}", name(), id, tokens[id], types[id]);
      }
      if (tokens[id].empty() || !unicode::is_valid_utf8(tokens[id])) {
        fail(ErrorKind::kCorrupt, "{}: token {} is empty or not UTF-8", name(), id);
      }
      if (!ids_.emplace(tokens[id], static_cast<uint32_t>(id)).second) {
        fail(ErrorKind::kCorrupt, "{}: token '{}' comes twice", name(), tokens[id]);
      }
      definition_.tokens.resize(id + 1);
      definition_.tokens[id] = tokens[id];
      if (added) definition_.added.push_back({tokens[id], static_cast<int64_t>(id), types[id] == kControl, false});
    }
  }

  void add_merge(const std::string& line) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) fail(ErrorKind::kCorrupt, "{}: merge '{}' is not two tokens", name(), line);
    const std::string left = line.substr(0, space), right = line.substr(space + 1);
    definition_.merges.push_back({id_of(left, line), id_of(right, line), id_of(left + right, line)});
  }

  uint32_t id_of(const std::string& token, const std::string& line) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) {
      fail(ErrorKind::kCorrupt, "{}: merge '{}' needs '{}', which is not in the vocabulary", name(), line, token);
    }
    return found->second;
  }

  void read_chat_template() {
    definition_.chat_template = file_.text("tokenizer.chat_template");
    if (!unicode::is_valid_utf8(definition_.chat_template)) {
      fail(ErrorKind::kCorrupt, "{}: tokenizer.chat_template is not UTF-8", name());
    }
  }

  void read_eos() {
    const int64_t id = file_.integer("tokenizer.ggml.eos_token_id");
    if (id < 0 || id >= static_cast<int64_t>(definition_.tokens.size()) || definition_.tokens[id].empty()) {
      fail(ErrorKind::kCorrupt, "{}: tokenizer.ggml.eos_token_id = {} is not a token", name(), id);
    }
    definition_.eos_id = id;
  }

  GgufFile file_;
  TokenizerDefinition definition_;
  std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace

TokenizerDefinition read_gguf_definition(const fs::path& path) { return GgufReader(path).read(); }

}  // namespace tritonforge::tokenizer
