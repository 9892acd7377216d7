#pragma once
// The fields of verdicts and trajectories, once: what is written, read (verdict.cpp, profile.cpp, trajectory.cpp) and
// described (schema.cpp; docs/reference/) follows from these lists.
#include "contract/fields.h"
#include "contract/trajectory.h"

namespace tritonforge {

constexpr std::array<std::string_view, 8> names_of(Stage) {
  return {"none", "extracted", "parsed", "imported", "compiled", "launched", "correct", "timed"};
}
constexpr std::array<std::string_view, 4> names_of(TurnStatus) {
  return {"completed", "truncated", "aborted", "failed"};
}

template <>
struct FieldList<Trial> {
  static constexpr std::string_view kName = "Trial", kOne = "trial", kHelp = "one correctness trial";
  template <typename V, typename T>
  static void visit(V& v, T& trial) {
    v("seed", trial.seed, "what its inputs and weights were drawn from");
    v("passed", trial.passed, "every output agreed");
    v("max_abs_error", figure(trial.max_abs_error), "worst |candidate - reference|");
    v("max_rel_error", figure(trial.max_rel_error),
      "worst |candidate - reference| / (atol + rtol |reference|); at most 1 passes");
    v("mismatch", trial.mismatch, "where and by how much; empty where it passed");
  }
};

template <>
struct FieldList<Timing> {
  static constexpr std::string_view kName = "Timing", kHelp = "milliseconds; without samples nothing was timed";
  template <typename V, typename T>
  static void visit(V& v, T& timing) {
    v("mean", figure(timing.mean), "arithmetic mean");
    v("median", figure(timing.median), "median");
    v("std", figure(timing.std), "standard deviation");
    v("min", figure(timing.min), "shortest");
    v("max", figure(timing.max), "longest");
    v("samples", timing.samples, "calls that were timed");
  }
};

template <>
struct FieldList<Flag> {
  static constexpr std::string_view kName = "Flag", kOne = "flag", kHelp = "a cheat or a doubt that was found";
  template <typename V, typename T>
  static void visit(V& v, T& flag) {
    v.needed("name", flag.kind, "which");
    v("evidence", flag.evidence, "what was seen");
    v.derived("cheat", flag.cheat(), "false: a doubt, which is reported only");
  }
};

template <>
struct FieldList<KernelProfile> {
  static constexpr std::string_view kName = "KernelProfile", kOne = "kernel",
                                    kHelp = "one of the candidate's own kernels, as the GPU ran it";
  template <typename V, typename T>
  static void visit(V& v, T& kernel) {
    v.needed("name", kernel.name, "its function");
    v("configuration", kernel.configuration, "the fastest of those that its autotuner has; empty: it has no choice");
    v("registers", kernel.registers, "a thread");
    v("spilled_bytes", kernel.spilled_bytes, "a thread, of local memory");
    v("shared", kernel.shared, "bytes of shared memory a block");
    v("warps", kernel.warps, "a block");
    v("occupancy", kernel.occupancy, "resident warps over those that a multiprocessor has room for");
    v("share", kernel.share, "of forward's time");
    v("ms", kernel.ms, "milliseconds of all its launches in one forward");
  }
};

template <>
struct FieldList<KernelCounters> {
  static constexpr std::string_view kName = "KernelCounters", kOne = "counters",
                                    kHelp = "what the GPU's counters say of one kernel in one forward";
  template <typename V, typename T>
  static void visit(V& v, T& kernel) {
    v.needed("name", kernel.name, "its function");
    v("launches", kernel.launches, "that were counted");
    v("dram_bytes", kernel.dram_bytes, "bytes read from device memory and written to it");
    v("sm_percent", kernel.sm_percent, "of the multiprocessors' peak, of the unit nearest to its own");
    v("occupancy_percent", kernel.occupancy_percent, "achieved: resident warps over those that there is room for");
    v("l2_hit_percent", kernel.l2_hit_percent, "of the sectors that L2 was asked for");
  }
};

template <>
struct FieldList<Profile> {
  static constexpr std::string_view kName = "Profile", kHelp = "where a candidate's time goes, measured on a GPU";
  template <typename V, typename T>
  static void visit(V& v, T& profile) {
    v("kernels", profile.kernels, "the candidate's own");
    v("torch_share", profile.torch_share, "of forward's time, spent in torch's own kernels");
    v("floor_ms", profile.floor_ms, "no forward can be faster: bytes, operations and the device's peaks");
    v("bytes_per_s", profile.bytes_per_s, "bytes that forward must move, over the candidate's time");
    v("peak_bytes_per_s", profile.peak_bytes_per_s, "the device's");
    v("flops_per_s", profile.flops_per_s, "operations of the reference, over the candidate's time");
    v("peak_flops_per_s", profile.peak_flops_per_s, "the device's");
    v("baselines", profile.baselines, "milliseconds, median: \"eager\", \"torch.compile\"");
    v("clock_mhz", profile.clock_mhz, "of the device, right after the last pair");
    v("power_w", profile.power_w, "watts, then");
    v("temperature", profile.temperature, "degrees Celsius, then");
    v("throttled", profile.throttled, "why the clock is held down; empty: it is not");
  }
};

template <>
struct FieldList<Verdict> {
  static constexpr std::string_view kName = "Verdict", kHelp = "what the evaluator says about one candidate";
  template <typename V, typename T>
  static void visit(V& v, T& verdict) {
    v("stage", verdict.stage, "how far it came; later stages imply the earlier ones");
    v("compiled", verdict.compiled, "its kernels compile for every target");
    v("correct", verdict.correct, "every trial passed and nothing is held against it");
    v.derived("cheated", verdict.cheated(), "a flag that is a cheat is among `flags`");
    v("trials", verdict.trials, "correctness trials, in their order");
    v("runtime", verdict.runtime, "the candidate's; of stage timed");
    v("ref_runtime", verdict.ref_runtime, "the faster baseline's");
    v("speedup", figure(verdict.speedup),
      "lower end of the 95 % interval against the faster baseline, by the trusted side's clock; 0: not timed");
    v("claimed_speedup", figure(verdict.claimed_speedup), "the same by the clock of the candidate's own process");
    v("speedup_low", figure(verdict.speedup_low), "95 % interval of the median ratio");
    v("speedup_high", figure(verdict.speedup_high), "its upper end");
    v("error_kind", verdict.fault, "why it is not correct, or why there is no verdict on it; empty: it is");
    v("diagnostics", verdict.diagnostics, "compiler text, exception and line, worst mismatch: what the model is shown");
    v("flags", verdict.flags, "cheats and doubts");
    v("compile_targets", verdict.compile_targets, "target -> \"ok\" or the first line of its error");
    v("kernels", verdict.kernels, "the candidate's own kernels that were launched");
    v("device", verdict.device, "\"cpu\" or the GPU's name");
    v("mode", verdict.mode, "what ran it; empty: nothing did");
    v("claimed", verdict.claimed,
      "fields that rest on the word of the candidate's own process; all others are measured");
    v("notes", verdict.notes, "reduced sizes, layers of the sandbox, cache, ...");
    v("seed", verdict.seed, "what its trials' seeds follow from");
    v("wall_s", figure(verdict.wall_s), "seconds that the evaluation took");
    v.when(
        !verdict.seconds.empty(), "seconds", verdict.seconds,
        "of wall_s: queue, problem (its reference), recording, compiling, replaying, running, turn (for the device), "
        "timing, races, other");
    v.when(verdict.own_share.has_value(), "own_share", verdict.own_share,
           "of the work, that the candidate's own kernels do (src/evaluate/plan/work.h); where it was replayed");
    v.when(verdict.profile.has_value(), "profile", verdict.profile, "where its time was measured on a GPU");
    v.when(!verdict.counters.empty(), "counters", verdict.counters, "the GPU's own, where --profile asks for them");
    const bool eager = verdict.eager_runtime.samples > 0, compiled = verdict.torch_compile_runtime.samples > 0;
    v.when(eager, "eager_runtime", verdict.eager_runtime, "of the reference as it is; where it was timed");
    v.when(eager, "eager_speedup", figure(verdict.eager_speedup), "against that, as `speedup`");
    v.when(compiled, "torch_compile_runtime", verdict.torch_compile_runtime, "of the reference under torch.compile");
    v.when(compiled, "torch_compile_speedup", figure(verdict.torch_compile_speedup), "against that, as `speedup`");
  }
};

template <>
struct FieldList<Turn> {
  static constexpr std::string_view kName = "Turn", kOne = "turn",
                                    kHelp = "one answer of the model and what became of it";
  template <typename V, typename T>
  static void visit(V& v, T& turn) {
    v.needed("text", turn.text, "the answer");
    v.needed("code", turn.code, "what was extracted of it; empty where there is none");
    v.needed("verdict", turn.verdict, "on that code");
    v.needed("reward", turn.reward, "of this turn alone");
    v.needed("status", turn.status, "failed: no verdict or no completion, for reasons of ours; it carries no loss");
    v("generate_s", turn.generate_s, "seconds of the request to the engine");
    v("evaluate_s", turn.evaluate_s, "seconds of the request to the evaluator");
    v.when(turn.generate_begun > 0, "generate_begun", turn.generate_begun, "Unix seconds");
    v.when(turn.evaluate_begun > 0, "evaluate_begun", turn.evaluate_begun, "Unix seconds");
    v.when(!turn.feedback.empty(), "feedback", turn.feedback, "what the model was told before the next turn");
    if (!v.tokens()) return;
    v.needed("prompt_tokens", turn.prompt_tokens, "exactly what the engine was given");
    v.needed("response_tokens", turn.response_tokens, "exactly what it sampled, the stop token included");
    v.needed("log_probs", turn.log_probs, "of each response token, at the trajectory's temperature, before any cut");
    v.needed("weight_versions", turn.weight_versions, "of each response token");
  }
};

template <>
struct FieldList<Trajectory> {
  static constexpr std::string_view kName = "Trajectory", kHelp = "all turns on one problem: what is trained on";
  template <typename V, typename T>
  static void visit(V& v, T& trajectory) {
    v.needed("id", trajectory.id, "unique in a run");
    v.needed("problem_id", trajectory.problem_id, "of what it was asked");
    v.needed("group_id", trajectory.group_id, "samples of one problem that are compared with one another");
    v.needed("turns", trajectory.turns, "in their order");
    v.needed("temperature", trajectory.temperature, "its tokens were drawn at");
    v.needed("reward", trajectory.reward, "its return, by the credit rule");
    v("turn_returns", trajectory.turn_returns, "one a turn: what credit gives that turn's tokens");
    v("advantages", trajectory.advantages, "one a turn; empty until the group is complete");
    v("carries_loss", trajectory.carries_loss,
      "one a turn: whether it is trained on; empty: every one that was sampled");
  }
};

}  // namespace tritonforge
