#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::cli {
namespace {

struct TokenizeOptions {
  std::string tokenizer, train_file, output;
  bool decode = false, chat = false, skip_special_tokens = false;
  int64_t vocab_size = 4096;
  tokenizer::ChatOptions chat_options;

  template <typename V>
  void describe(V& v) {
    v("tokenizer", tokenizer, "model folder, tokenizer.json or GGUF file");
    v("decode", decode, R"({"ids": [...]} in, {"text": ...} out)");
    v("skip_special_tokens", skip_special_tokens, "leaves special tokens out of decoded text");
    v("chat", chat, R"({"messages": [...], "tools": [...]} in, {"text": ..., "ids": [...]} out)");
    v("generation_prompt", chat_options.add_generation_prompt, "a chat ends with the assistant's turn opened");
    v("thinking", chat_options.enable_thinking, "Qwen3: lets the model think");
    v("train", train_file, R"(trains a byte-level BPE on this file of JSON lines {"text": ...})");
    v("vocab_size", vocab_size, at_least(1), "ids of the trained vocabulary, bytes and added tokens included");
    v("output", output, "folder for tokenizer.json and tokenizer_config.json");
  }
  void validate() const {
    if (chat && decode) fail(ErrorKind::kUsage, "tokenize: --chat and --decode are two things to do");
    if (!train_file.empty() && !tokenizer.empty())
      fail(ErrorKind::kUsage, "tokenize: --train makes a tokenizer, --tokenizer names one: give one of them");
    if (!train_file.empty() && output.empty()) fail(ErrorKind::kUsage, "--train needs --output FOLDER");
    if (train_file.empty() && tokenizer.empty())
      fail(ErrorKind::kUsage, "tokenize needs --tokenizer PATH (or --train FILE)");
  }
};

// Lines are answered one by one, so that the command can stand in a pipe.
class LineRunner {
 public:
  explicit LineRunner(const TokenizeOptions& options)
      : options_(options), tokenizer_(tokenizer::Tokenizer::load(options.tokenizer)) {
    if (options.chat) format_ = tokenizer::recognise_chat_format(tokenizer_.chat_template(), options.tokenizer);
  }

  std::string answer(const std::string& line, const std::string& where) const {
    const OrderedJson request = parse_ordered_json(line, where);
    if (!request.is_object()) fail(ErrorKind::kUsage, "{}: expected an object", where);
    if (options_.decode) return text_of(field<std::vector<int64_t>>(request, "ids", "a list of ids", where));
    if (!options_.chat) return "{\"ids\":" + ids_of(field<std::string>(request, "text", "a text", where)) + "}";
    tokenizer::ChatOptions chat = options_.chat_options;
    if (request.contains("tools")) chat.tools = request["tools"];
    const OrderedJson messages = request.contains("messages") ? request["messages"] : OrderedJson();
    const std::string text = tokenizer::render_chat(format_, tokenizer::messages_from_json(messages, where), chat);
    return "{\"text\":" + OrderedJson(text).dump() + ",\"ids\":" + ids_of(text) + "}";
  }

 private:
  template <typename T>
  static T field(const OrderedJson& request, const char* key, const char* expected, const std::string& where) {
    const auto found = request.find(key);
    if (found == request.end()) fail(ErrorKind::kUsage, "{}: field '{}' is missing", where, key);
    try {
      return found->get<T>();
    } catch (const nlohmann::json::exception&) {
      fail(ErrorKind::kUsage, "{}: field '{}' must be {}", where, key, expected);
    }
  }
  std::string ids_of(const std::string& text) const {
    return fmt::format("[{}]", fmt::join(tokenizer_.encode(text), ","));
  }
  std::string text_of(const std::vector<int64_t>& ids) const {
    return "{\"text\":" + OrderedJson(tokenizer_.decode(ids, options_.skip_special_tokens)).dump() + "}";
  }

  const TokenizeOptions& options_;
  tokenizer::Tokenizer tokenizer_;
  tokenizer::ChatFormat format_ = tokenizer::ChatFormat::kPlain;
};

void run_lines(const TokenizeOptions& options) {
  const LineRunner runner(options);
  std::ios::sync_with_stdio(false);
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      std::cout << runner.answer(line, fmt::format("line {}", number)) << '\n';
    } catch (...) {
      std::cout.flush();
      throw;
    }
    if (std::cin.rdbuf()->in_avail() <= 0)
      std::cout.flush();  // nothing waits to be read: whoever asked wants the answer
  }
  std::cout.flush();
  if (!std::cout) fail(ErrorKind::kUnavailable, "cannot write to standard output");
}

void train(const TokenizeOptions& options) {
  const std::string lines = read_file(options.train_file);
  std::vector<std::string> texts;
  int64_t number = 1;
  for (size_t at = 0; at < lines.size(); ++number) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", options.train_file, number);
    texts.push_back(require<std::string>(parse_json(line, where), "text", where));
  }
  if (texts.empty()) fail(ErrorKind::kUsage, "{}: no texts to train on", options.train_file);
  tokenizer::BpeTrainerOptions trainer;
  trainer.vocab_size = options.vocab_size;
  tokenizer::train_bpe(texts, trainer, options.output);
  const tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(options.output);
  fmt::print("{{\"folder\":{},\"vocab_size\":{}}}\n", OrderedJson(options.output).dump(), tokenizer.vocab_size());
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  auto* command = app.add_subcommand("tokenize",
                                     "text to token ids and back, chat templates, and small vocabularies of one's own");
  auto options = std::make_shared<TokenizeOptions>();
  add_flags(*command, *options);
  command->footer(
      "Example:\n  echo '{\"text\": \"import triton\"}' | tritonforge tokenize --tokenizer MODEL_FOLDER\n"
      "  tritonforge tokenize --train texts.jsonl --vocab-size 2048 --output tiny-tokenizer");
  command->callback([options] {
    options->validate();
    if (options->train_file.empty()) run_lines(*options);
    else train(*options);
  });
}

}  // namespace tritonforge::cli
