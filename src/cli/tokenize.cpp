#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::cli {
namespace {

struct TokenizeOptions {
  std::string tokenizer, train_file, output;
  bool decode = false, chat = false, skip_special = false;
  int64_t vocab_size = 4096;
  tokenizer::ChatOptions chat_options;
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
    return "{\"text\":" + OrderedJson(tokenizer_.decode(ids, options_.skip_special)).dump() + "}";
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
  if (options.output.empty()) fail(ErrorKind::kUsage, "--train needs --output FOLDER");
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
  auto* tokenizer = command->add_option("--tokenizer", options->tokenizer, "model folder, tokenizer.json or GGUF file");
  auto* decode = command->add_flag("--decode", options->decode, "{\"ids\": [...]} in, {\"text\": ...} out");
  command->add_flag("--skip-special-tokens", options->skip_special, "leave special tokens out of decoded text")
      ->needs(decode);
  auto* chat = command
                   ->add_flag("--chat", options->chat,
                              "{\"messages\": [...], \"tools\": [...]} in, {\"text\": ..., \"ids\": [...]} out")
                   ->excludes(decode);
  command
      ->add_flag("--add-generation-prompt,!--no-add-generation-prompt", options->chat_options.add_generation_prompt,
                 "open the assistant's turn at the end (default: yes)")
      ->needs(chat);
  command
      ->add_option("--enable-thinking", options->chat_options.enable_thinking,
                   "Qwen3: let the model think (default: true)")
      ->needs(chat);
  command->add_option("--train", options->train_file, "train a byte-level BPE on JSON lines {\"text\": ...}")
      ->excludes(tokenizer);
  command->add_option("--vocab-size", options->vocab_size,
                      "ids of the trained vocabulary, bytes and added tokens included");
  command->add_option("--output", options->output, "folder for tokenizer.json and tokenizer_config.json");
  command->footer(
      "Example:\n  echo '{\"text\": \"import triton\"}' | tritonforge tokenize --tokenizer MODEL_FOLDER\n"
      "  tritonforge tokenize --train texts.jsonl --vocab-size 2048 --output tiny-tokenizer");
  command->callback([options] {
    if (!options->train_file.empty()) return train(*options);
    if (options->tokenizer.empty()) fail(ErrorKind::kUsage, "tokenize needs --tokenizer PATH (or --train FILE)");
    run_lines(*options);
  });
}

}  // namespace tritonforge::cli
