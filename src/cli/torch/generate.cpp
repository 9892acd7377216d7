#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <tuple>

#include "base/json.h"
#include "base/process.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "engine/engine.h"
#include "engine/wire.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::cli {
namespace {

struct GenerateOptions {
  engine::EngineOptions engine;
  engine::SamplingParams sampling;
  uint64_t seed = 0;
  std::vector<std::string> prompts;
  bool chat = false, thinking = true, json = false;

  template <typename V>
  void describe(V& v) {
    v("prompts", prompts, spelled("prompt"), "a prompt; without it, JSON lines on stdin: text, ids or messages");
    v("chat", chat, "takes --prompt as a user's message in the model's chat template");
    v("thinking", thinking, "Qwen3: lets the model think");
    v("seed", seed, "of the draws");
    v("json", json, "one JSON object an answer: text, output_ids, meta_info with log-probabilities");
    v.part(sampling);
  }
};

// One prompt of a line: {"text"} or {"prompt"}, {"ids"} or {"input_ids"}, or {"messages"}; "sampling_params" replaces
// the flags'.
engine::Request request_from(const std::string& line, const std::string& where, const GenerateOptions& options,
                             const tokenizer::Tokenizer& tokenizer) {
  const OrderedJson body = parse_ordered_json(line, where);
  if (!body.is_object()) fail(ErrorKind::kUsage, "{}: expected an object", where);
  engine::Request request;
  request.sampling = options.sampling;
  try {
    if (body.contains("messages")) {
      tokenizer::ChatOptions chat;
      chat.enable_thinking = options.thinking;
      if (body.contains("tools")) chat.tools = body["tools"];
      const auto format = tokenizer::recognise_chat_format(tokenizer.chat_template(), options.engine.model.string());
      request.prompt_ids = tokenizer.encode(
          tokenizer::render_chat(format, tokenizer::messages_from_json(body["messages"], where), chat));
    } else if (body.contains("ids") || body.contains("input_ids")) {
      request.prompt_ids = body[body.contains("ids") ? "ids" : "input_ids"].get<std::vector<int64_t>>();
    } else if (body.contains("text") || body.contains("prompt")) {
      request.prompt_ids = tokenizer.encode(body[body.contains("text") ? "text" : "prompt"].get<std::string>());
    } else {
      fail(ErrorKind::kUsage, "{}: give 'text', 'ids' or 'messages'", where);
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::kUsage, "{}: a field has the wrong type: {}", where, error.what());
  }
  if (body.contains("sampling_params"))
    request.sampling = engine::sampling_from_json(parse_json(body["sampling_params"].dump(), where), where);
  return request;
}

void print(const engine::Output& output, const engine::GenerateRequest& request, const tokenizer::Tokenizer& tokenizer,
           bool json) {
  for (const Json& sample : engine::generate_to_json(output, request, tokenizer)) {
    if (json) fmt::print("{}\n", sample.dump());
    else fmt::print("{}\n", sample["text"].get<std::string>());
  }
  std::fflush(stdout);
}

[[noreturn]] void fail_without_prompt() {
  fail(ErrorKind::kUsage, "generate: no prompt: give --prompt TEXT, or JSON lines on stdin");
}

// Prompts go to the engine as they are read; answers are printed in the order of the prompts.
void generate(const GenerateOptions& options) {
  options.sampling.validate(int64_t{1} << 60);
  // What there is to say of the prompts is said before the model is read, which may take minutes.
  if (options.prompts.empty()) {
    if (::isatty(STDIN_FILENO) != 0)
      fmt::print(stderr, "one prompt a line, as JSON ({{\"text\": ...}}); Ctrl-D ends. Or: --prompt TEXT\n");
    else if (std::cin.peek() == EOF) fail_without_prompt();
  }
  SignalWaiter signals;
  std::timed_mutex printing;
  size_t printed = 0;  // prompts whose answers are, under `printing`
  const EndsAtSignal ends([&](int number) {
    // An answer is printed whole, unless nobody reads it; what comes behind it is not begun.
    std::ignore = printing.try_lock_for(std::chrono::seconds(2));
    tell_stopped(number,
                 fmt::format("prompts whose answers are printed, whole: {}; give those after them to go on", printed));
  });
  engine::Engine engine(options.engine);
  const tokenizer::Tokenizer& tokenizer = *engine.tokenizer();
  engine::GenerateRequest wanted;
  wanted.return_logprob = true;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, engine::Output> done;
  size_t submitted = 0, shown = 0;
  bool failed = false;
  const auto show = [&](size_t at_most_waiting) {
    std::unique_lock lock(mutex);
    while (shown < submitted) {
      if (submitted - shown <= at_most_waiting && !done.count(shown)) return;
      changed.wait(lock, [&] { return done.count(shown) != 0; });
      const engine::Output output = std::move(done.extract(shown).mapped());
      ++shown;
      lock.unlock();
      for (const engine::Sample& sample : output.samples) {
        if (sample.finish == engine::FinishReason::kAbort) {
          failed = true;
          fmt::print(stderr, "tritonforge generate: prompt {}: {}\n", shown, sample.abort_message);
        }
      }
      {
        const std::lock_guard whole(printing);
        print(output, wanted, tokenizer, options.json);
        ++printed;
      }
      lock.lock();
    }
  };
  const auto submit = [&](engine::Request request) {
    // One of its own for each prompt: equal ones would get equal answers.
    if (!request.sampling.seed)
      request.sampling.seed = submitted == 0 ? options.seed
                                             : Rng::derive(options.seed, fmt::format("prompt {}", submitted));
    request.id = fmt::format("{}", submitted);
    request.deadline = Deadline::after(1e6);
    request.on_output = [&, index = submitted](engine::Output output) {
      std::lock_guard lock(mutex);
      done.emplace(index, std::move(output));
      changed.notify_all();
    };
    engine.submit(std::move(request)).value();
    ++submitted;
    show(static_cast<size_t>(options.engine.max_running));
  };
  if (!options.prompts.empty()) {
    for (const auto& prompt : options.prompts) {
      const Json line = options.chat ? Json{{"messages", Json::array({{{"role", "user"}, {"content", prompt}}})}}
                                     : Json{{"text", prompt}};
      submit(request_from(line.dump(), "--prompt", options, tokenizer));
    }
  } else {
    size_t number = 0;
    for (std::string line; std::getline(std::cin, line);) {
      ++number;
      if (line.find_first_not_of(" \t\r") != std::string::npos)
        submit(request_from(line, fmt::format("line {}", number), options, tokenizer));
    }
    if (submitted == 0) fail_without_prompt();
  }
  show(0);
  if (failed) fail(ErrorKind::kUnavailable, "generate: some prompts were not finished");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  auto* command = app.add_subcommand("generate", "samples text from a model, with token ids and log-probabilities");
  add_flags(*command, options->engine, {"share_device", "watchdog_s"});
  add_flags(*command, *options);
  command->footer(
      "example: tritonforge generate --model ~/models/Qwen3-0.6B --chat --prompt 'Write a Triton kernel that adds two "
      "vectors' --temperature 0");
  command->callback([options] { generate(*options); });
}

}  // namespace tritonforge::cli
