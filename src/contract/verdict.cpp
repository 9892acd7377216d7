#include "contract/verdict.h"

#include <algorithm>
#include <cmath>

#include "contract/field_lists.h"

namespace tritonforge {
namespace {

// KernelBench's statistics carry three significant digits.
double three_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 2 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

std::string_view name_of(Stage stage) { return name_of<Stage>(stage); }

Stage parse_stage(std::string_view name) { return from_name<Stage>(name, "stage"); }

std::map<std::string, std::string> reduced_sizes(const std::map<std::string, std::string>& notes) {
  constexpr std::string_view kReduced = "reduced.";
  std::map<std::string, std::string> sizes;
  for (const auto& [name, note] : notes) {
    if (name.starts_with(kReduced)) sizes[name.substr(kReduced.size())] = note;
  }
  return sizes;
}

bool Verdict::cheated() const {
  return std::any_of(flags.begin(), flags.end(), [](const Flag& flag) { return flag.cheat(); });
}

std::vector<std::string> claimed_fields(EvaluationMode mode) {
  if (mode == EvaluationMode::kPlan) return {};
  std::vector<std::string> fields{"stage",      "compiled",    "correct", "compile_targets", "kernels", "flags",
                                  "error_kind", "diagnostics", "notes"};
  if (mode == EvaluationMode::kLive)
    fields.insert(fields.end(), {"runtime", "claimed_speedup", "speedup_low", "speedup_high"});
  return fields;
}

Json to_json(const Verdict& v) { return write_fields(v); }

Verdict verdict_from_json(const Json& json) {
  Verdict verdict;
  read_fields(json, verdict, "verdict");
  if (verdict.speedup > 0 && verdict.eager_runtime.samples == 0 && verdict.torch_compile_runtime.samples == 0) {
    verdict.eager_runtime = verdict.ref_runtime;
    verdict.eager_speedup = verdict.speedup;
  }
  return verdict;
}

Json to_kernel_exec_result(const Verdict& v) {
  Json metadata = {{"hardware", v.device}, {"gpu_type", v.device}, {"device", v.device}, {"mode", name_of(v.mode)}};
  if (!v.correct && !v.diagnostics.empty()) {
    if (!v.compiled) {
      metadata["compilation_error"] = v.diagnostics;
      metadata["compilation_error_name"] = name_of(v.fault);
    } else if (v.fault == Fault::kMismatch) {
      metadata["correctness_issue"] = v.diagnostics;
      metadata["correctness_issue_name"] = name_of(v.fault);
    } else {
      metadata["runtime_error"] = v.diagnostics;
      metadata["runtime_error_name"] = name_of(v.fault);
    }
  }
  if (!v.trials.empty()) {
    const auto passed = std::count_if(v.trials.begin(), v.trials.end(), [](const Trial& t) { return t.passed; });
    metadata["correctness_trials"] = fmt::format("({} / {})", passed, v.trials.size());
    Json worst = Json::array();
    for (const auto& t : v.trials) worst.push_back(figure_json(t.max_abs_error));
    metadata["max_difference"] = std::move(worst);
  }
  if (v.cheated()) {
    Json flags = Json::object();
    for (const auto& f : v.flags) {
      if (f.cheat()) flags[std::string(name_of(f.kind))] = f.evidence;
    }
    metadata["cheats"] = std::move(flags);
  }
  Json stats = Json::object();
  double runtime = -1;  // KernelBench: not measured
  if (v.stage == Stage::kTimed) {
    runtime = three_digits(v.runtime.mean);
    stats = {{"mean", three_digits(v.runtime.mean)},
             {"std", three_digits(v.runtime.std)},
             {"min", three_digits(v.runtime.min)},
             {"max", three_digits(v.runtime.max)},
             {"num_trials", v.runtime.samples},
             {"hardware", v.device},
             {"device", v.device},
             {"gpu_type", v.device}};
    metadata["ref_runtime"] = three_digits(v.ref_runtime.mean);
    metadata["speedup"] = v.speedup;
    const auto baseline = [&](const std::string& name, const Timing& timing, double speedup) {
      if (timing.samples == 0) return;
      metadata[name + "_runtime"] = three_digits(timing.mean);
      metadata[name + "_speedup"] = speedup;
    };
    baseline("eager", v.eager_runtime, v.eager_speedup);
    baseline("torch_compile", v.torch_compile_runtime, v.torch_compile_speedup);
  }
  return {{"compiled", v.compiled},
          {"correctness", v.correct && !v.cheated()},
          {"metadata", std::move(metadata)},
          {"runtime", runtime},
          {"runtime_stats", std::move(stats)}};
}

}  // namespace tritonforge
