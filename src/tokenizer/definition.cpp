#include "tokenizer/definition.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "tokenizer/pretokenizer.h"

namespace tritonforge::tokenizer {
namespace {

constexpr int64_t kMostIds = int64_t{1} << 24;

class DefinitionReader {
 public:
  explicit DefinitionReader(const std::string& where) : where_(where) {}

  TokenizerDefinition read(const Json& root) {
    if (!root.is_object()) corrupt("the file", "is not an object");
    for (const auto& [key, value] : root.items()) {
      static const std::vector<std::string> known = {"version",        "truncation", "padding",
                                                     "added_tokens",   "normalizer", "pre_tokenizer",
                                                     "post_processor", "decoder",    "model"};
      if (std::find(known.begin(), known.end(), key) == known.end()) unsupported("'" + key + "'", value);
    }
    for (const char* key : {"truncation", "padding"}) {
      if (!part(root, key).is_null()) unsupported(key, part(root, key));
    }
    read_normalizer(part(root, "normalizer"));
    read_pre_tokenizer(part(root, "pre_tokenizer"));
    read_post_processor(part(root, "post_processor"));
    const Json& decoder = part(root, "decoder");
    if (type_of(decoder) != "ByteLevel") unsupported("decoder", decoder);
    read_model(part(root, "model"));
    read_added(part(root, "added_tokens"));
    return std::move(definition_);
  }

 private:
  [[noreturn]] void corrupt(const std::string& what, const std::string& fault) const {
    fail(ErrorKind::kCorrupt, "{}: {} {}", where_, what, fault);
  }
  [[noreturn]] void unsupported(const std::string& what, const Json& found) const {
    std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 160) shown = shown.substr(0, 160) + "...";
    fail(ErrorKind::kUnsupported, "{}: {} is not understood: {}", where_, what, shown);
  }
  static const Json& part(const Json& object, const char* key) {
    static const Json null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
  }
  static std::string type_of(const Json& object) {
    const Json& type = object.is_object() ? part(object, "type") : object;
    return type.is_string() ? type.get<std::string>() : "";
  }

  void read_normalizer(const Json& json) {
    definition_.nfc = type_of(json) == "NFC";
    if (!definition_.nfc && !json.is_null()) unsupported("normalizer", json);
  }

  // ByteLevel only moves offsets, which nobody sees here. TemplateProcessing puts a begin of text before what is
  // encoded alone; here text is encoded as it is, and a chat template says itself where it begins.
  void read_post_processor(const Json& json) {
    const Json alone = Json::array({json});
    const bool sequence = type_of(json) == "Sequence" && part(json, "processors").is_array();
    for (const Json& each : sequence ? part(json, "processors") : alone) {
      const std::string type = type_of(each);
      if (!each.is_null() && type != "ByteLevel" && type != "TemplateProcessing") unsupported("post_processor", json);
    }
  }

  void read_pre_tokenizer(const Json& json) {
    const Json& steps = json.is_object() ? part(json, "pretokenizers") : json;
    if (type_of(json) != "Sequence" || !steps.is_array() || steps.size() != 2) unsupported("pre_tokenizer", json);
    const auto split_at = [](std::string_view pattern) {
      return Json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    };
    if (steps[0] == split_at(kLlama3Pattern)) definition_.most_digits = 3;
    else if (steps[0] != split_at(kQwenPattern)) unsupported("pre_tokenizer's split", steps[0]);
    const Json& bytes = steps[1];
    const bool plain = type_of(bytes) == "ByteLevel" && part(bytes, "add_prefix_space") == false &&
                       part(bytes, "use_regex") == false;
    if (!plain) unsupported("pre_tokenizer's second step", bytes);
  }

  void read_model(const Json& model) {
    const std::string type = type_of(model);
    if (!type.empty() && type != "BPE") unsupported("model", Json(type));
    if (!model.is_object()) corrupt("model", "is missing");
    for (const auto& [key, value] : model.items()) {
      if (key == "type" || key == "vocab" || key == "merges") continue;
      if (key == "ignore_merges" && value.is_boolean()) {
        definition_.ignore_merges = value.get<bool>();
        continue;
      }
      const bool off = value.is_null() || value == false || value == Json("");
      if (!off) unsupported("model's " + key, value);
    }
    read_vocabulary(part(model, "vocab"));
    read_merges(part(model, "merges"));
  }

  void read_vocabulary(const Json& vocabulary) {
    if (!vocabulary.is_object() || vocabulary.empty()) corrupt("model's vocab", "is not an object of tokens");
    for (const auto& [token, id] : vocabulary.items()) {
      if (!id.is_number_integer() || id < 0 || id >= kMostIds)
        corrupt("token '" + token + "'", "has the id " + id.dump());
      set_token(id.get<int64_t>(), token);
    }
    vocabulary_size_ = static_cast<int64_t>(vocabulary.size());
  }

  void set_token(int64_t id, const std::string& token) {
    auto& tokens = definition_.tokens;
    if (token.empty()) corrupt("the token of id " + std::to_string(id), "is empty");
    if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
    if (!tokens[id].empty())
      corrupt("id " + std::to_string(id), "belongs to '" + tokens[id] + "' and to '" + token + "'");
    tokens[id] = token;
    ids_.emplace(token, static_cast<uint32_t>(id));
  }

  uint32_t id_of(const std::string& token, size_t rank) const {
    const auto found = ids_.find(token);
    if (found == ids_.end())
      corrupt("merge " + std::to_string(rank), "needs '" + token + "', which is not in the vocabulary");
    return found->second;
  }

  void add_merge(const std::string& left, const std::string& right) {
    const size_t rank = definition_.merges.size();
    definition_.merges.push_back({id_of(left, rank), id_of(right, rank), id_of(left + right, rank)});
  }

  void read_merges(const Json& merges) {
    if (!merges.is_array()) corrupt("model's merges", "are not a list");
    definition_.merges.reserve(merges.size());
    for (const Json& merge : merges) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
      } else if (merge.is_string()) {
        add_merge_line(merge.get_ref<const std::string&>());
      } else {
        corrupt("merge " + std::to_string(definition_.merges.size()), "is " + merge.dump().substr(0, 60));
      }
    }
  }

 public:
  void add_merge_line(const std::string& line) {
    if (line.starts_with("#version")) return;
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      corrupt("merge '" + line.substr(0, 60) + "'", "is not two tokens");
    }
    add_merge(line.substr(0, space), line.substr(space + 1));
  }

 private:
  void read_added(const Json& list) {
    if (list.is_null()) return;
    if (!list.is_array()) corrupt("added_tokens", "are not a list");
    int64_t next = vocabulary_size_;  // the id that the reference gives to the next token that is not in the vocabulary
    for (const Json& json : list) {
      AddedToken token;
      const std::string what = "added token " +
                               (json.is_object()
                                    ? part(json, "content").dump(-1, ' ', false, Json::error_handler_t::replace)
                                    : "");
      if (!json.is_object() || !part(json, "content").is_string() || !part(json, "id").is_number_integer()) {
        corrupt(what, "is incomplete");
      }
      for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
        if (!part(json, flag).is_boolean()) corrupt(what, std::string("has no '") + flag + "'");
      }
      for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
        if (part(json, flag) == true) unsupported(what + "'s " + flag, json);
      }
      token.content = json["content"].get<std::string>();
      token.id = json["id"].get<int64_t>();
      token.special = json["special"].get<bool>();
      token.normalized = json["normalized"].get<bool>();
      if (token.content.empty()) corrupt(what, "is empty");
      const auto known = ids_.find(token.content);
      const int64_t expected = known != ids_.end() ? known->second : next;
      if (token.id != expected) {
        corrupt(what, fmt::format("has the id {} where the reference would give {}", token.id, expected));
      }
      if (known == ids_.end()) {
        set_token(token.id, token.content);
      }
      next = std::max(next, token.id + 1);
      definition_.added.push_back(std::move(token));
    }
  }

  const std::string& where_;
  TokenizerDefinition definition_;
  std::unordered_map<std::string, uint32_t> ids_;
  int64_t vocabulary_size_ = 0;
};

Json parse_file(const std::string& text, const std::string& where) {
  Json json = parse_json_or_discard(text);
  if (json.is_discarded()) fail(ErrorKind::kCorrupt, "{}: not valid JSON", where);
  return json;
}

std::string text_of_token(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("content") && json["content"].is_string())
    return json["content"].get<std::string>();
  return "";
}

std::string template_of(const Json& json, const std::string& where) {
  if (json.is_null()) return "";
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    for (const Json& entry : json) {
      if (entry.is_object() && entry.value("name", Json()) == "default" &&
          entry.value("template", Json()).is_string()) {
        return entry["template"].get<std::string>();
      }
    }
  }
  fail(ErrorKind::kUnsupported, "{}: chat_template is neither a text nor a list with a 'default'", where);
}

}  // namespace

TokenizerDefinition parse_tokenizer_json(const std::string& text, const std::string& where) {
  TokenizerDefinition definition = DefinitionReader(where).read(parse_file(text, where));
  definition.tokenizer_json = text;
  return definition;
}

void add_tokenizer_config(TokenizerDefinition& definition, const std::string& text, const std::string& where) {
  const Json config = parse_file(text, where);
  if (!config.is_object()) fail(ErrorKind::kCorrupt, "{}: not an object", where);
  const auto id_of = [&](const std::string& content) -> std::optional<int64_t> {
    for (const auto& token : definition.added) {
      if (token.content == content) return token.id;
    }
    const auto found = std::find(definition.tokens.begin(), definition.tokens.end(), content);
    if (found == definition.tokens.end()) return std::nullopt;
    return found - definition.tokens.begin();
  };
  if (config.contains("chat_template")) definition.chat_template = template_of(config["chat_template"], where);
  if (config.contains("eos_token") && !config["eos_token"].is_null()) {
    const std::string eos = text_of_token(config["eos_token"]);
    definition.eos_id = id_of(eos);
    if (!definition.eos_id) fail(ErrorKind::kCorrupt, "{}: eos_token '{}' is not in the vocabulary", where, eos);
  }
  const auto added = config.find("added_tokens_decoder");
  if (added != config.end() && added->is_object()) {
    for (const auto& [id, token] : added->items()) {
      const std::string content = text_of_token(token);
      const auto known = id_of(content);
      if (!known || std::to_string(*known) != id) {
        fail(ErrorKind::kUnsupported, "{}: added token '{}' ({}) is not in tokenizer.json", where, content, id);
      }
    }
  }
  definition.tokenizer_config_json = text;
}

TokenizerDefinition read_definition(const fs::path& path) {
  if (!fs::exists(path))
    fail(ErrorKind::kNotFound, "no such file or folder: {}{}", path.string(), nearest_path_hint(path));
  if (!fs::is_directory(path)) {
    if (path.extension() == ".gguf") return read_gguf_definition(path);
    if (path.extension() != ".json")
      fail(ErrorKind::kUsage, "{} is neither a folder, a tokenizer.json nor a GGUF file", path.string());
  }
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  const fs::path file = fs::is_directory(path) ? path / "tokenizer.json" : path;
  if (!fs::exists(file))
    fail(ErrorKind::kNotFound, "{} holds no tokenizer.json: a model's folder in Hugging Face form has one",
         path.string());
  TokenizerDefinition definition = parse_tokenizer_json(read_file(file), file.string());
  const fs::path config = folder / "tokenizer_config.json";
  if (fs::exists(config)) add_tokenizer_config(definition, read_file(config), config.string());
  const fs::path chat_template = folder / "chat_template.jinja";
  if (fs::exists(chat_template)) {
    definition.chat_template = read_file(chat_template);
    definition.template_in_own_file = true;
  }
  return definition;
}

std::string write_tokenizer_json(const TokenizerDefinition& definition) {
  Json vocabulary = Json::object(), merges = Json::array(), added = Json::array();
  std::vector<bool> is_added(definition.tokens.size());
  for (const auto& token : definition.added) {
    is_added[static_cast<size_t>(token.id)] = true;
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  for (size_t id = 0; id < definition.tokens.size(); ++id) {
    if (!is_added[id] && !definition.tokens[id].empty()) vocabulary[definition.tokens[id]] = id;
  }
  for (const auto& merge : definition.merges) {
    merges.push_back({definition.tokens[merge.left], definition.tokens[merge.right]});
  }
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kQwenPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", definition.nfc ? Json{{"type", "NFC"}} : Json()},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level})}}},
                     {"post_processor", byte_level},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", ""},
                       {"end_of_word_suffix", ""},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  return root.dump(1) + "\n";
}

std::string write_tokenizer_config_json(const TokenizerDefinition& definition) {
  Json decoder = Json::object(), special = Json::array();
  for (const auto& token : definition.added) {
    decoder[std::to_string(token.id)] = {{"content", token.content},       {"lstrip", false},
                                         {"normalized", token.normalized}, {"rstrip", false},
                                         {"single_word", false},           {"special", token.special}};
    if (token.special) special.push_back(token.content);
  }
  Json config = {{"add_bos_token", false},
                 {"add_prefix_space", false},
                 {"added_tokens_decoder", decoder},
                 {"additional_special_tokens", special},
                 {"bos_token", nullptr},
                 {"clean_up_tokenization_spaces", false},
                 {"errors", "replace"},
                 {"split_special_tokens", false},
                 {"tokenizer_class", "Qwen2Tokenizer"},
                 {"unk_token", nullptr}};
  if (definition.eos_id) config["eos_token"] = definition.tokens[static_cast<size_t>(*definition.eos_id)];
  if (!definition.chat_template.empty()) config["chat_template"] = definition.chat_template;
  for (const auto& token : definition.added) {
    if (token.content == "<|endoftext|>") config["pad_token"] = token.content;
  }
  return config.dump(2) + "\n";
}

}  // namespace tritonforge::tokenizer
