#include "train/score.h"

#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"

namespace tritonforge::cli {

void add_score_command(CLI::App& app) {
  auto* command = app.add_subcommand("score", "per-token log-probabilities of token ids, from the trainer's forward");
  auto options = std::make_shared<train::ScoreOptions>();
  add_flags(*command, *options);
  command->footer(
      R"(Reads JSON lines {"ids": [..]} and writes {"log_probs": [..]}: one number for each id but the first.
Example: echo '{"ids": [40, 1079, 264]}' | tritonforge score --model qwen2.5-coder-0.5b.gguf)");
  command->callback([options] { train::score_lines(*options, std::cin, std::cout); });
}

}  // namespace tritonforge::cli
