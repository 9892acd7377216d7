#pragma once
// Exact byte-level BPE as Hugging Face's tokenizers does it for the Qwen families: NFC, Qwen's pre-tokenizer pattern,
// added tokens. Thread-safe after construction. What it does not understand it refuses by name.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge::tokenizer {

struct TokenizerDefinition;  // tokenizer/definition.h

class Tokenizer {
 public:
  // From a folder with tokenizer.json (and tokenizer_config.json for the chat template), a tokenizer.json file, or a
  // GGUF file. Throws kNotFound / kCorrupt / kUnsupported naming the part.
  static Tokenizer load(const fs::path& path);
  // Throws kUnsupported where one of the 256 bytes has no token.
  explicit Tokenizer(TokenizerDefinition definition, const std::string& where = "tokenizer");
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Added tokens in the text become their ids (as the reference does); no bytes are ever lost, valid UTF-8 or not.
  std::vector<int64_t> encode(std::string_view text) const;
  // For text that others wrote into a template of ours: `content` in which a special token's text ("<|im_end|>") is
  // marked, and the encoding of a text that holds such parts, where what is marked stays text. The marks, bytes that no
  // UTF-8 has, are gone from it; bytes of `content` that are not UTF-8 become U+FFFD. Added tokens that are not special
  // ("<think>") are recognised in both.
  std::string mark_special(std::string_view content) const;
  std::vector<int64_t> encode_marked(std::string_view text) const;
  // Invalid UTF-8 (a token can end inside a character) becomes U+FFFD, and ids without a token (the padding of an
  // embedding) become nothing, as in the reference.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = false) const;
  // The raw bytes of one token, "" for an id without one; concatenating them and replacing invalid UTF-8 is decode().
  std::string token_bytes(int64_t id) const;
  std::optional<int64_t> id_of(std::string_view token) const;  // "<|im_end|>" -> 151645
  bool is_special(int64_t id) const;
  int64_t vocab_size() const;                // highest id + 1
  const std::string& chat_template() const;  // Jinja text, "" where the model has none
  std::optional<int64_t> eos_id() const;
  // Copies tokenizer.json and tokenizer_config.json into `folder`. From GGUF: writes equivalent ones.
  void save(const fs::path& folder) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Text that arrives token by token: bytes of an unfinished character are held back.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  std::string feed(int64_t id);  // the text that became complete
  std::string finish();          // what was held back, with U+FFFD

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string pending_;
};

}  // namespace tritonforge::tokenizer
