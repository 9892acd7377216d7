#pragma once
// A run folder as a run of a few hundred steps leaves it, with hostile text where candidates could put it.
#include <cmath>
#include <fstream>

#include "base/filesystem.h"
#include "base/json.h"
#include "base/rng.h"

namespace tritonforge::dashboard {

inline const char* const kHostile =
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";

inline void append(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::app | std::ios::binary) << text;
}

inline Json make_turn(bool compiled, bool correct, const std::string& diagnostics, double reward) {
  return {{"prompt_tokens", {1, 2, 3}},
          {"response_tokens", {4, 5}},
          {"log_probs", {-0.1, -0.2}},
          {"weight_versions", {3, 3}},
          {"text", "Here is the kernel."},
          {"code",
           "import torch\nimport triton\nimport triton.language as tl\n\n@triton.jit\ndef relu_kernel(x_ptr, y_ptr, n, "
           "BLOCK: tl.constexpr):\n"
           "    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    mask = offsets < n\n    x = "
           "tl.load(x_ptr + offsets, mask=mask)\n"
           "    tl.store(y_ptr + offsets, tl.maximum(x, 0.0), mask=mask)\n"},
          {"verdict",
           {{"stage", correct    ? "correct"
                      : compiled ? "launched"
                                 : "imported"},
            {"compiled", compiled},
            {"correct", correct},
            {"error_kind", correct    ? ""
                           : compiled ? "mismatch"
                                      : "compile_error"},
            {"diagnostics", diagnostics},
            {"flags", Json::array()}}},
          {"reward", reward},
          {"status", "completed"},
          {"generate_s", 1.42},
          {"evaluate_s", 0.31}};
}

inline void write_run(const fs::path& run) {
  Rng rng(7);
  write_file_atomic(
      run / "status.json",
      Json{{"run", "quickstart-seed1"},
           {"stage", "rl"},
           {"eta_s", 312},
           {"progress", {{"done", 60}, {"total", 120}}},
           {"roles",
            {{{"name", "engine-0"}, {"state", "green"}, {"detail", "weights 59, 1840 tokens/s"}},
             {{"name", "router"}, {"state", "green"}, {"detail", "1 green, 0 yellow, 0 red workers"}},
             {{"name", "evaluator"}, {"state", "yellow"}, {"detail", "14 waiting for 2 workers"}},
             {{"name", "buffer"}, {"state", "green"}, {"detail", "4 groups ready"}},
             {{"name", "trainer"}, {"state", "red"}, {"detail", "killed by signal 9; restarting from checkpoint 58"}}}}}
          .dump());
  std::string lines;
  for (int step = 1; step <= 200; ++step) {
    lines += Json{{"stage", "sft"},
                  {"step", step},
                  {"loss", 0.4 + 3.2 * std::exp(-step / 40.0) + 0.15 * rng.uniform()},
                  {"seconds", 0.4}}
                 .dump() +
             "\n";
  }
  for (int step = 1; step <= 60; ++step) {
    const double progress = 1 - std::exp(-step / 25.0);
    lines += Json{{"stage", "rl"},
                  {"step", step},
                  {"loss", 0.02 * (rng.uniform() - 0.5)},
                  {"reward_mean", 0.2 + 0.45 * progress + 0.08 * (rng.uniform() - 0.5)},
                  {"pass_rate", 0.25 + 0.5 * progress + 0.1 * (rng.uniform() - 0.5)},
                  {"compile_rate", 0.6 + 0.35 * progress + 0.06 * (rng.uniform() - 0.5)},
                  {"train_rollout_logprob_abs_diff", 1e-5 * (1 + rng.uniform())},
                  {"seconds", 2.1 + 0.6 * rng.uniform()}}
                 .dump() +
             "\n";
  }
  append(run / "steps.jsonl", lines);
  const auto trajectory = [](int i, Json turns, double reward) {
    return Json{{"id", "s60-p" + std::to_string(i) + "-0"},
                {"problem_id", "level1_19_relu"},
                {"group_id", "s60-p" + std::to_string(i)},
                {"problem_source",
                 "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return "
                 "torch.relu(x)\n"},
                {"turns", turns},
                {"reward", reward}}
               .dump() +
           "\n";
  };
  append(
      run / "trajectories.jsonl",
      trajectory(1, {make_turn(true, true, "", 0.8)}, 0.8) +
          trajectory(2,
                     {make_turn(false, false,
                                std::string("CompilationError at 9:12: name 'tl' is not defined ") + kHostile, -0.1)},
                     -0.1) +
          trajectory(3,
                     {make_turn(true, false, "output 0 at [3, 17]: 0.25, expected 1.5 (1024 of 4096 wrong)", 0.3),
                      make_turn(true, true, "", 0.8)},
                     0.62));
  write_file_atomic(run / "result.json",
                    Json{{"stages",
                          {{{"name", "base"},
                            {"turns", 1},
                            {"samples", 200},
                            {"compile_rate", 0.115},
                            {"pass_at_1", 0.02},
                            {"ci95", {0.008, 0.05}}},
                           {{"name", "sft"},
                            {"turns", 1},
                            {"samples", 200},
                            {"compile_rate", 0.72},
                            {"pass_at_1", 0.41},
                            {"ci95", {0.344, 0.479}}},
                           {{"name", "rl"},
                            {"turns", 1},
                            {"samples", 200},
                            {"compile_rate", 0.93},
                            {"pass_at_1", 0.68},
                            {"ci95", {0.612, 0.741}}},
                           {{"name", "rl"},
                            {"turns", 3},
                            {"samples", 200},
                            {"compile_rate", 0.975},
                            {"pass_at_1", 0.79},
                            {"ci95", {0.728, 0.841}}}}},
                         {"wall_s", {{"data", 61.2}, {"sft", 180.5}, {"rl", 260.0}, {"bench", 70.4}}},
                         {"seed", 1}}
                        .dump());
}

}  // namespace tritonforge::dashboard
