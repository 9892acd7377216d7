#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/definition.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode.h"

namespace tritonforge::tokenizer {
namespace {

constexpr char kMark = '\xFF';  // stands behind the first byte of a special token's text

std::array<uint32_t, 256> find_byte_ids(const std::unordered_map<std::string, int64_t>& ids, const std::string& where) {
  std::array<uint32_t, 256> result{};
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(to_byte_alphabet(std::string(1, static_cast<char>(byte))));
    if (found == ids.end())
      fail(ErrorKind::kUnsupported, "{}: the vocabulary has no token for byte {:#04x}", where, byte);
    result[static_cast<size_t>(byte)] = static_cast<uint32_t>(found->second);
  }
  return result;
}

}  // namespace

struct Tokenizer::Impl {
  TokenizerDefinition definition;
  std::unordered_map<std::string, int64_t> ids;
  BpeModel bpe;
  AddedTokenFinder raw, normalized, special_texts;
  std::vector<std::string> bytes;  // by id
  std::vector<bool> special;
  // Tokens that the merges do not make, where words may be them all the same. Views into `bytes`.
  std::unordered_map<std::string_view, int64_t> whole;

  // A call takes a cache and gives it back, so that words stay known between calls and threads never share one.
  std::mutex caches_mutex;
  std::vector<std::unique_ptr<WordCache>> caches;

  static std::unordered_map<std::string, int64_t> index(const std::vector<std::string>& tokens) {
    std::unordered_map<std::string, int64_t> ids;
    ids.reserve(tokens.size());
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (!tokens[id].empty()) ids.emplace(tokens[id], static_cast<int64_t>(id));
    }
    return ids;
  }

  Impl(TokenizerDefinition given, const std::string& where)
      : definition(std::move(given)), ids(index(definition.tokens)), bpe(find_byte_ids(ids, where), definition.merges) {
    special.resize(definition.tokens.size());
    for (const auto& token : definition.added) {
      if (!token.normalized) raw.add(token.content, token.id);
      else normalized.add(definition.nfc ? unicode::nfc(token.content) : token.content, token.id);
      if (!token.special) continue;
      special[static_cast<size_t>(token.id)] = true;
      special_texts.add(token.content, token.id);
    }
    for (const auto& token : definition.tokens) bytes.push_back(from_byte_alphabet(token).value_or(token));
    if (definition.ignore_merges) find_whole();
  }

  void find_whole() {
    std::vector<bool> added(bytes.size());
    for (const auto& token : definition.added) added[static_cast<size_t>(token.id)] = true;
    WordCache cache;
    std::vector<int64_t> made;
    for (size_t id = 0; id < bytes.size(); ++id) {
      if (added[id] || bytes[id].empty()) continue;
      made.clear();
      bpe.encode_word(bytes[id], cache, made);
      if (made.size() != 1 || made[0] != static_cast<int64_t>(id)) whole.emplace(bytes[id], static_cast<int64_t>(id));
    }
  }

  std::unique_ptr<WordCache> take_cache() {
    const std::lock_guard lock(caches_mutex);
    if (caches.empty()) return std::make_unique<WordCache>();
    auto cache = std::move(caches.back());
    caches.pop_back();
    return cache;
  }
  void give_back(std::unique_ptr<WordCache> cache) {
    const std::lock_guard lock(caches_mutex);
    caches.push_back(std::move(cache));
  }

  void encode_plain(std::string_view text, WordCache& cache, std::vector<int64_t>& out) const {
    const char* end = text.data() + text.size();
    for (const char* at = text.data(); at < end;) {
      const char* next = next_word(at, end, definition.most_digits);
      const std::string_view word(at, static_cast<size_t>(next - at));
      at = next;
      if (const auto found = whole.empty() ? whole.end() : whole.find(word); found != whole.end())
        out.push_back(found->second);
      else bpe.encode_word(word, cache, out);
    }
  }

  void encode_piece(std::string_view text, WordCache& cache, std::vector<int64_t>& out) const {
    std::string changed;
    if (definition.nfc && unicode::may_change_under_nfc(text)) text = changed = unicode::nfc(text);
    normalized.split(
        text, [&](std::string_view piece) { encode_plain(piece, cache, out); }, [&](int64_t id) { out.push_back(id); });
  }

  // `as_text` makes of what stands between two added tokens the text that is encoded.
  template <typename AsText>
  std::vector<int64_t> encode(std::string_view text, AsText&& as_text) {
    std::vector<int64_t> out;
    out.reserve(text.size() / 3 + 8);
    auto cache = take_cache();
    raw.split(
        text, [&](std::string_view piece) { encode_piece(as_text(piece), *cache, out); },
        [&](int64_t id) { out.push_back(id); });
    give_back(std::move(cache));
    return out;
  }

  bool has(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(bytes.size()); }
};

Tokenizer::Tokenizer(TokenizerDefinition definition, const std::string& where)
    : impl_(std::make_unique<Impl>(std::move(definition), where)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const fs::path& path) { return Tokenizer(read_definition(path), path.string()); }

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  return impl_->encode(text, [](std::string_view piece) { return piece; });
}

std::string Tokenizer::mark_special(std::string_view content) const {
  std::string valid;
  if (!unicode::is_valid_utf8(content)) content = valid = unicode::replace_invalid_utf8(content);
  std::string out;
  for (size_t at = 0;;) {
    const auto match = impl_->special_texts.find(content, at);
    if (match.at == std::string_view::npos) return out += content.substr(at);
    out += content.substr(at, match.at + 1 - at);
    out += kMark;
    at = match.at + 1;
  }
}

std::vector<int64_t> Tokenizer::encode_marked(std::string_view text) const {
  if (text.find(kMark) == std::string_view::npos) return encode(text);
  std::string unmarked;
  return impl_->encode(text, [&](std::string_view piece) -> std::string_view {
    unmarked = piece;
    std::erase(unmarked, kMark);
    return unmarked;
  });
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int64_t id : ids) {
    if (impl_->has(id) && !(skip_special_tokens && impl_->special[static_cast<size_t>(id)])) {
      bytes += impl_->bytes[static_cast<size_t>(id)];
    }
  }
  return unicode::replace_invalid_utf8(bytes);
}

std::string Tokenizer::token_bytes(int64_t id) const {
  return impl_->has(id) ? impl_->bytes[static_cast<size_t>(id)] : std::string();
}

std::optional<int64_t> Tokenizer::id_of(std::string_view token) const {
  const auto found = impl_->ids.find(std::string(token));
  if (found == impl_->ids.end()) return std::nullopt;
  return found->second;
}

bool Tokenizer::is_special(int64_t id) const { return impl_->has(id) && impl_->special[static_cast<size_t>(id)]; }
int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(impl_->bytes.size()); }
const std::string& Tokenizer::chat_template() const { return impl_->definition.chat_template; }
std::optional<int64_t> Tokenizer::eos_id() const { return impl_->definition.eos_id; }

void Tokenizer::save(const fs::path& folder) const {
  const TokenizerDefinition& d = impl_->definition;
  fs::create_directories(folder);
  write_file_atomic(folder / "tokenizer.json", d.tokenizer_json.empty() ? write_tokenizer_json(d) : d.tokenizer_json);
  write_file_atomic(folder / "tokenizer_config.json",
                    d.tokenizer_config_json.empty() ? write_tokenizer_config_json(d) : d.tokenizer_config_json);
  if (d.template_in_own_file) write_file_atomic(folder / "chat_template.jinja", d.chat_template);
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_(skip_special_tokens) {}

std::string StreamDecoder::feed(int64_t id) {
  if (skip_special_ && tokenizer_.is_special(id)) return "";
  pending_ += tokenizer_.token_bytes(id);
  const size_t held = unicode::unfinished_tail(pending_);
  const std::string complete = unicode::replace_invalid_utf8(
      std::string_view(pending_).substr(0, pending_.size() - held));
  pending_.erase(0, pending_.size() - held);
  return complete;
}

std::string StreamDecoder::finish() {
  const std::string rest = unicode::replace_invalid_utf8(pending_);
  pending_.clear();
  return rest;
}

}  // namespace tritonforge::tokenizer
