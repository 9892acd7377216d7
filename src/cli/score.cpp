#include "model/score.h"

#include <iostream>
#include <memory>

#include "cli/commands.h"

namespace tritonforge::cli {

void add_score_command(CLI::App& app) {
  auto* command = app.add_subcommand("score", "per-token log-probabilities of token ids, from the trainer's forward");
  auto options = std::make_shared<model::ScoreOptions>();
  auto json = std::make_shared<bool>(true);
  command->add_option("--model", options->model, "Hugging Face folder or .gguf file")->required();
  command->add_option("--dtype", options->dtype, "float32, bfloat16 or float16: weights and arithmetic")
      ->capture_default_str();
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--logits-last", options->logits_last, "adds the logits after the last token of each line");
  command->add_flag("--json", *json, "the output is JSON lines with or without this flag");
  command->footer(
      R"(Reads JSON lines {"ids": [..]} and writes {"log_probs": [..]}: one number for each id but the first.
Example: echo '{"ids": [40, 1079, 264]}' | tritonforge score --model qwen2.5-coder-0.5b.gguf)");
  command->callback([options, json] { model::score_lines(*options, std::cin, std::cout); });
}

}  // namespace tritonforge::cli
