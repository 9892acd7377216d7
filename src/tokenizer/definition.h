#pragma once
// A tokenizer as plain data, read from tokenizer.json or GGUF and written as tokenizer.json. Reading refuses by name
// (kUnsupported) every part that encode() would not follow exactly.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "tokenizer/bpe.h"

namespace tritonforge::tokenizer {

struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;
  bool normalized = false;  // searched for after NFC, not before
};

struct TokenizerDefinition {
  std::vector<std::string> tokens;  // by id, in the byte alphabet; "" = no such id
  std::vector<BpeMerge> merges;     // in order of rank
  std::vector<AddedToken> added;
  bool nfc = true;
  int most_digits = 1;         // of one word, by the pre-tokenizer's pattern
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges make of it
  std::string chat_template;   // "" = none
  std::optional<int64_t> eos_id;
  // The files that it was read from, for save(); empty where it was not read from such files.
  std::string tokenizer_json, tokenizer_config_json;
  bool template_in_own_file = false;  // chat_template.jinja beside them
};

// `where` begins error messages. Throws kCorrupt / kUnsupported naming the part.
TokenizerDefinition parse_tokenizer_json(const std::string& text, const std::string& where);
// tokenizer_config.json: chat template and end token, and that its added tokens are those of tokenizer.json.
void add_tokenizer_config(TokenizerDefinition& definition, const std::string& text, const std::string& where);

// A folder, a tokenizer.json or a GGUF file.
TokenizerDefinition read_definition(const fs::path& path);
TokenizerDefinition read_gguf_definition(const fs::path& path);

std::string write_tokenizer_json(const TokenizerDefinition& definition);
std::string write_tokenizer_config_json(const TokenizerDefinition& definition);

}  // namespace tritonforge::tokenizer
