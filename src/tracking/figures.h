#pragma once
// Under which names a run's figures go to TensorBoard, Weights & Biases and MLflow, and to Prometheus: the one table
// (docs/metrics.md is printed from it). The names are the original TritonForge's where the figure is the same.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace tritonforge::tracking {

struct FigureName {
  std::string_view figure;    // in a line of RUN/steps.jsonl; "" = computed from others (kComputed)
  std::string_view key;       // of an RL step; of an SFT step "sft/" and its last part
  std::string_view original;  // the original's name of the same, or "near X: how it differs"; "" = it has none
  std::string_view help;
};
std::span<const FigureName> figure_names();

std::string sft_key(std::string_view key);  // "sft/loss" of train/loss

// The x axis of a key: what W&B and the like draw it over.
std::string_view axis_of(std::string_view key);  // train/step, rollout/step, sft/step, eval/step

struct Point {
  int64_t step = 0;
  double time = 0;                                     // unix seconds
  std::vector<std::pair<std::string, double>> values;  // key, value; finite ones only
};
Point point_of_step(const Json& line);  // of steps.jsonl; throws kUsage where it has no stage or step
// Of state.json's rows, the `number`-th from 0: eval/turns_3/pass_at_1, ...
Point point_of_row(const Json& row, int64_t number, double time);

// "tritonforge_run_train_pg_clipfrac" of train/pg_clipfrac.
std::string prometheus_name(std::string_view key);

std::string metrics_reference();  // docs/metrics.md

}  // namespace tritonforge::tracking
