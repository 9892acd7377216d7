#include "evaluate/judgement.h"

#include <algorithm>

namespace tritonforge::evaluate {
namespace {

constexpr size_t kMaxResources = 1000;  // bytes of a note
// Of the tolerance: a sum of products in tf32 is wrong by some ten of the usual one, and one may be a sixty-fourth of
// that. More is another mistake.
constexpr double kMostByTf32 = 1000;

void add_kernel(Verdict& verdict, const std::string& name) {
  if (std::find(verdict.kernels.begin(), verdict.kernels.end(), name) == verdict.kernels.end())
    verdict.kernels.push_back(name);
}

void add_tampered(Verdict& verdict, const std::vector<std::string>& names) {
  if (!names.empty()) add_flag(verdict, Cheat::kMonkeypatch, fmt::format("replaced {}", fmt::join(names, ", ")));
}

}  // namespace

Judgement::Judgement(const ReferenceData& reference, double min_own_share, Verdict begun)
    : reference_(reference), min_own_share_(min_own_share), verdict_(std::move(begun)) {
  if (verdict_.mode) verdict_.claimed = claimed_fields(*verdict_.mode);
}

void Judgement::end(const Ended& ended) {
  verdict_.fault = ended.fault;
  if (ended.how == Ended::How::kForged) return add_flag(verdict_, Cheat::kProtocolForgery, ended.text);
  for (const auto& name : ended.kernels) verdict_.kernels.push_back(name);
  add_tampered(verdict_, ended.tampered);
  add_diagnostics(verdict_, ended.text);
}

bool Judgement::take(const std::vector<Compiled>& compiled, const std::string& where) {
  bool ok = true;
  for (const auto& [target, error, resources, parameters, tuner_skips] : compiled) {
    std::string& state = verdict_.compile_targets[target];
    if (error.empty()) {
      if (state.empty()) state = "ok";
      std::string& note = verdict_.notes["resources." + target];
      if (!resources.empty() && note.find(resources) == std::string::npos && note.size() < kMaxResources)
        note += (note.empty() ? "" : "; ") + resources;
      if (note.empty()) verdict_.notes.erase("resources." + target);
      continue;
    }
    ok = false;
    if (state.empty() || state == "ok") state = clipped(error.substr(0, error.find('\n')), 300);
    if (verdict_.diagnostics.find(error.substr(0, 200)) == std::string::npos)
      add_diagnostics(verdict_, fmt::format("{}{}: {}", where, target, error));
  }
  any_compiled_ = any_compiled_ || !compiled.empty();
  if (!ok && verdict_.fault == Fault::kNone) verdict_.fault = Fault::kCompileError;
  return ok;
}

bool Judgement::take(const Loaded& loaded) {
  for (const auto& [layer, state] : loaded.layers.items())
    verdict_.notes["sandbox." + layer] = state.is_string() ? state.get<std::string>() : state.dump();
  for (const Flag& doubt : loaded.doubts) add_flag(verdict_, doubt.kind, doubt.evidence);
  verdict_.stage = std::max(verdict_.stage, loaded.stage);
  if (!loaded.autotune.empty()) verdict_.notes["autotune"] = clipped(loaded.autotune, 1000);
  if (!loaded.own_weights.empty())
    verdict_.notes["own_weights"] = clipped(fmt::format("{}", fmt::join(loaded.own_weights, ", ")), 300);
  verdict_.claimed.insert(verdict_.claimed.end(), loaded.claimed.begin(), loaded.claimed.end());
  if (loaded.ended) end(*loaded.ended);
  if (loaded.recorded) {
    recorded_ = loaded.recorded;
    verdict_.notes["steps"] = fmt::format("{} launches, {} aten calls", recorded_->launches,
                                          recorded_->steps - recorded_->launches);
  }
  const bool compiles = take(loaded.compiled, "");
  if (loaded.ended && loaded.launched && compiles) {
    verdict_.compiled = true;
    verdict_.stage = Stage::kLaunched;
  }
  if (!compiles || loaded.ended) return false;
  if (!recorded_) return true;
  for (const std::string& name : recorded_->kernels) add_kernel(verdict_, name);
  if (recorded_->launches == 0) add_flag(verdict_, Cheat::kNoKernelLaunched, "forward launches no " + recorded_->kind);
  verdict_.compiled = recorded_->launches > 0;
  if (!recorded_->not_run.empty()) {
    leave_not_run();
    return false;
  }
  if (verdict_.compiled) verdict_.stage = Stage::kLaunched;
  return true;
}

// Its kernels are taken to do all that the plan does not leave to torch: even then torch may do too much of it.
void Judgement::leave_not_run() {
  constexpr double kAllThereIs = 1e30;
  if (verdict_.compiled) verdict_.stage = Stage::kCompiled;
  weigh({.computing = kAllThereIs, .moving = kAllThereIs});
  verdict_.own_share.reset();
  verdict_.fault = Fault::kNotRun;
  if (verdict_.compiled) add_diagnostics(verdict_, recorded_->not_run);
}

// What the candidate's process says of its launches, fallbacks and patches.
void Judgement::note_launches(const Report& report, size_t trial) {
  for (const auto& name : report.kernels) add_kernel(verdict_, name);
  if (!report.swallowed.empty()) {
    add_flag(verdict_, Cheat::kKernelFallback,
             "a launch failed and its error was swallowed: " + report.swallowed.front());
  }
  add_tampered(verdict_, report.tampered);
  if (!report.launched && report.swallowed.empty()) {
    add_flag(verdict_, Cheat::kNoKernelLaunched,
             fmt::format("forward of trial {} launched no @triton.jit kernel", trial));
  }
}

// And of what it returned, where its kernels compile.
bool Judgement::take(const Report& report) {
  verdict_.compiled = report.launched && any_compiled_;
  if (verdict_.compiled) verdict_.stage = std::max(verdict_.stage, Stage::kLaunched);
  if (report.launched && !any_compiled_) {
    add_flag(verdict_, Cheat::kNoKernelLaunched, "forward says that it launched kernels, and handed over none");
    return false;
  }
  if (!report.subclass.empty()) {
    add_flag(verdict_, Cheat::kLazyOutput, "forward returned a " + report.subclass + ", not a torch.Tensor");
    return false;
  }
  if (!report.torch_ops.empty()) verdict_.notes["torch_ops"] = fmt::format("{}", fmt::join(report.torch_ops, ", "));
  return true;
}

void Judgement::weigh(const Work& own) {
  const double share = reference_.own_share_of(own, recorded_->aten);
  verdict_.own_share = share;
  if (recorded_->launches == 0 || share >= min_own_share_) return;
  add_flag(verdict_, Cheat::kTorchDoesTheWork,
           fmt::format("the kernels do {:.1f} % of the work, torch the rest{}; at least {:.0f} % must be theirs",
                       100 * share, recorded_->heaviest.empty() ? "" : ", most of it in " + recorded_->heaviest,
                       100 * min_own_share_));
}

// Triton's default on an NVIDIA GPU, torch's is not to: whoever never asked for it is told.
void Judgement::hint_at_tf32(const Trial& trial) {
  if (trial.passed || !recorded_ || recorded_->in_tf32.empty() || trial.max_rel_error > kMostByTf32) return;
  add_diagnostics(verdict_,
                  fmt::format("tl.dot in {} cuts its float32 operands to tf32, ten bits of mantissa, which is not "
                              "precise enough here: input_precision=\"ieee\" or \"tf32x3\" keeps them",
                              fmt::join(recorded_->in_tf32, ", ")));
}

// Where a reference does nothing but move data, the order that it leaves it in is its work.
void Judgement::check_layout(const Call& call, const ReferenceTrial& expected) {
  const bool moves_only = reference_.work && reference_.work->work.computing <= 0;
  if (!moves_only || !verdict_.trials.back().passed) return;
  for (size_t i = 0; i < std::min(call.result->by_row.size(), expected.by_row.size()); ++i) {
    if (expected.by_row[i] && !call.result->by_row[i]) {
      add_flag(verdict_, Cheat::kLazyOutput,
               fmt::format("output {} is a view of memory in another order, where the reference does nothing but "
                           "bring it into order: .contiguous() by a kernel of yours is missing",
                           i));
    }
  }
}

bool Judgement::take(const Call& call, size_t trial) {
  // No answer: what was launched before may still show that the kernels compile.
  if (call.ended) {
    end(*call.ended);
    if (take(call.compiled, "") && any_compiled_) {
      verdict_.compiled = true;
      verdict_.stage = std::max(verdict_.stage, verdict_.kernels.empty() ? Stage::kCompiled : Stage::kLaunched);
    }
    return false;
  }
  if (call.report) note_launches(*call.report, trial);
  if (!take(call.compiled, "")) {
    verdict_.compiled = false;
    return false;
  }
  if (call.report && !take(*call.report)) return false;
  for (const auto& [kind, text] : call.findings) {
    verdict_.notes[kind] = text;
    if (kind != "race") continue;
    verdict_.fault = Fault::kRuntimeError;
    add_diagnostics(verdict_, "race: " + text);
    return false;
  }
  if (call.own && recorded_) {
    if (call.aten) recorded_->aten = *call.aten;
    weigh(*call.own);
  }
  judge_call(*call.result, call.whole ? &*call.whole : nullptr, *reference_.trials.at(trial), trial,
             reference_.tolerances, verdict_, constant_);
  hint_at_tf32(verdict_.trials.back());
  check_layout(call, *reference_.trials.at(trial));
  return verdict_.trials.back().passed && !verdict_.cheated();
}

// A tuner may choose it: what is wrong with it is wrong with the candidate.
bool Judgement::take(const ConfigurationCall& other) {
  if (!other.call) {
    std::string& note = verdict_.notes["autotune"];
    note += fmt::format("{}{} was not run", note.empty() ? "" : "; ", other.name);
    return true;
  }
  Judgement with_it = *this;
  if (with_it.take(*other.call, other.trial)) return true;
  std::vector<Trial> trials = std::move(verdict_.trials);
  if (with_it.verdict_.trials.size() > trials.size()) trials.at(other.trial) = with_it.verdict_.trials.back();
  verdict_ = std::move(with_it.verdict_);
  verdict_.trials = std::move(trials);
  verdict_.diagnostics = fmt::format("with a configuration that the autotuner may choose, {}: {}", other.name,
                                     verdict_.diagnostics);
  return false;
}

bool Judgement::take(const Measured& measured) {
  if (measured.ended) {
    end(*measured.ended);
    return false;
  }
  if (recorded_ && measured.aten) recorded_->aten = *measured.aten;
  weigh(measured.own);
  for (const Flag& flag : measured.flags) add_flag(verdict_, flag.kind, flag.evidence);
  for (const auto& [name, note] : measured.notes) verdict_.notes[name] = note;
  if (verdict_.cheated()) return false;
  if (measured.claimed) {
    verdict_.runtime = measured.claimed->runtime;
    verdict_.ref_runtime = measured.claimed->ref_runtime;
    verdict_.claimed_speedup = verdict_.speedup_low = measured.claimed->low;
    verdict_.speedup_high = measured.claimed->high;
    verdict_.claimed.insert(verdict_.claimed.end(),
                            {"runtime", "ref_runtime", "claimed_speedup", "speedup_low", "speedup_high"});
  }
  if (measured.times) {
    verdict_.runtime = measured.times->runtime;
    verdict_.ref_runtime = measured.times->ref_runtime;
    verdict_.speedup = measured.times->speedup;
    verdict_.speedup_low = measured.times->low;
    verdict_.speedup_high = measured.times->high;
    verdict_.eager_runtime = measured.times->eager;
    verdict_.eager_speedup = measured.times->eager_speedup;
    verdict_.torch_compile_runtime = measured.times->torch_compile;
    verdict_.torch_compile_speedup = measured.times->torch_compile_speedup;
    verdict_.profile = measured.times->profile;
  }
  return true;
}

bool Judgement::take_without_launches(const Call& call) {
  // A candidate that fails without its kernels needs them.
  if (call.ended && call.ended->how == Ended::How::kForged) end(*call.ended);
  if (call.result && same_outputs(*call.result, call.whole ? &*call.whole : nullptr, *reference_.trials.front(),
                                  reference_.tolerances))
    add_flag(verdict_, Cheat::kNoKernelEffect, "with every launch left out, the output is the same");
  return !verdict_.cheated();
}

bool Judgement::take(const FullSize& full) {
  if (!full.note.empty()) verdict_.notes["full_size"] = full.note;
  for (const std::string& error : full.failed) {
    verdict_.fault = Fault::kCompileError;
    add_diagnostics(verdict_, fmt::format("{}: {}", full.where, error));
  }
  if (!take(full.compiled, full.where + ", ") || !full.failed.empty()) return false;
  if (full.launches == 0 && full.note.empty())
    add_flag(verdict_, Cheat::kNoKernelLaunched, full.where + ", forward launches no " + recorded_->kind);
  if (!full.more_by_torch.empty())
    add_flag(verdict_, Cheat::kTorchDoesTheWork,
             fmt::format("{}, forward has torch do {}, which it does not at smaller ones", full.where,
                         fmt::join(full.more_by_torch, ", ")));
  if (!full.mismatch.empty()) {
    verdict_.fault = Fault::kMismatch;
    add_diagnostics(verdict_, fmt::format("{}: {}", full.where, full.mismatch));
  }
  return !verdict_.cheated() && full.mismatch.empty();
}

void Judgement::accept() {
  TF_CHECK(!verdict_.cheated() && verdict_.fault == Fault::kNone, "a verdict with a fault is accepted");
  verdict_.correct = true;
  verdict_.stage = verdict_.profile ? Stage::kTimed : Stage::kCorrect;
}

}  // namespace tritonforge::evaluate
