#include "evaluate/judge.h"

#include <algorithm>

#include "base/rng.h"
#include "evaluate/trial.h"

namespace tritonforge::evaluate {
namespace {

// Of all the kernels that a candidate launches, every specialisation and target one.
constexpr size_t kMaxKernels = 256, kMaxKernelHeader = 64 << 10, kMaxIrBytes = 64 << 20;
// What an answer may hold beyond twice the reference's bytes: a wrong shape or dtype shall still be told as one.
constexpr size_t kPayloadSlack = 64 << 20;

std::string string_or(const Json& object, const char* key, const std::string& fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : fallback;
}

int64_t number_or(const Json& object, const char* key, int64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

// The value that a word from the candidate's process names, where it is one.
template <NamedEnum E>
std::optional<E> word_of(std::string_view name) {
  const auto names = names_of(E{});
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<E>(found - names.begin()));
}

// What the worker may say of its own failure (worker/tritonforge_worker/errors.py). The rest is the evaluator's to
// find: a candidate that could claim a fault of the problem's would go unpunished.
bool is_candidates_own(Fault fault) {
  return fault == Fault::kSyntaxError || fault == Fault::kImportError || fault == Fault::kCompileError ||
         fault == Fault::kRuntimeError || fault == Fault::kOutOfMemory;
}

}  // namespace

Judge::Judge(JudgeContext context, const EvaluationRequest& request, std::shared_ptr<const ReferenceData> reference,
             uint64_t init_seed, uint64_t nonce_seed, Verdict& verdict, Deadline deadline, Deadline overall)
    : context_(context),
      request_(request),
      reference_(std::move(reference)),
      init_seed_(init_seed),
      nonce_state_(nonce_seed),
      verdict_(verdict),
      deadline_(deadline),
      overall_(overall),
      limit_s_(deadline.remaining_s()) {}

void Judge::forged(const std::string& what) {
  verdict_.fault = Fault::kForbidden;
  add_flag(verdict_, Cheat::kProtocolForgery, what);
}

std::string Judge::nonce() {
  nonce_state_ = Rng::mix(nonce_state_ + 0x9E3779B97F4A7C15ull);
  return fmt::format("{:016x}", nonce_state_);
}

void Judge::silence(Silence silence, const std::string& detail, const char* doing) {
  if (silence == Silence::kGarbled) return forged(detail);
  const std::string how = describe_silence(silence, *child_, detail, limit_s_);
  if (silence == Silence::kClosed && child_->orphaned())
    fail(ErrorKind::kUnavailable, "evaluator: the Python parent died while {}", doing);
  verdict_.fault = fault_of(silence, how);
  add_diagnostics(verdict_, fmt::format("the candidate's process {} while {}", how, doing));
}

bool Judge::keep_kernel(const Frame& frame) {
  const Json& header = frame.header;
  ir_bytes_ += frame.payload.size();
  if (frame.header_bytes > kMaxKernelHeader) {
    forged(fmt::format("a kernel's options of {} bytes", frame.header_bytes));
    return false;
  }
  if (kernels_.size() == kMaxKernels || ir_bytes_ > kMaxIrBytes) {
    verdict_.fault = Fault::kCompileError;
    add_diagnostics(verdict_, fmt::format("the candidate has more than {} compiled forms of kernels, or more than {} "
                                          "MiB of Triton IR: launch fewer specialisations",
                                          kMaxKernels, kMaxIrBytes >> 20));
    return false;
  }
  kernels_.push_back({.name = clipped(string_or(header, "kernel", "?"), 200),
                      .target = string_or(header, "target", ""),
                      .ir = std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size()),
                      .options = header.value("options", Json::object()),
                      .error = clipped(string_or(header, "error", ""), 4000)});
  return true;
}

std::optional<Frame> Judge::next(const char* doing, size_t payload_bytes) {
  for (;;) {
    Frame frame;
    std::string detail;
    const Silence quiet = child_->channel().receive(frame, deadline_, detail, payload_bytes + kPayloadSlack);
    if (quiet != Silence::kNone) {
      silence(quiet, detail, doing);
      return std::nullopt;
    }
    const Json& header = frame.header;
    if (header.contains("kernel")) {
      if (!keep_kernel(frame)) return std::nullopt;
      continue;
    }
    if (header.contains("fatal")) {
      verdict_.fault = Fault::kCrashed;
      add_diagnostics(verdict_, "the candidate's process failed: " + clipped(header["fatal"].dump(), 1000));
      return std::nullopt;
    }
    if (header.contains("failed")) {
      failed(frame);
      return std::nullopt;
    }
    return frame;
  }
}

void Judge::failed(const Frame& frame) {
  const Json& what = frame.header["failed"];
  const std::string text = what.is_object() ? string_or(what, "text", "") : "";
  const auto kind = word_of<Fault>(what.is_object() ? string_or(what, "kind", "runtime_error") : "runtime_error");
  if (!kind || !is_candidates_own(*kind)) return forged("a failure of an unknown kind: " + clipped(what.dump(), 200));
  verdict_.fault = *kind;
  for (const char* sign : {"PermissionError", "Operation not permitted", "can't start new thread", "BlockingIOError"}) {
    if (text.find(sign) != std::string::npos) verdict_.fault = Fault::kForbidden;
  }
  for (const auto& name : strings_of(frame.header, "kernels")) verdict_.kernels.push_back(name);
  const auto tampered = strings_of(frame.header, "tampered");
  if (!tampered.empty()) add_flag(verdict_, Cheat::kMonkeypatch, fmt::format("replaced {}", fmt::join(tampered, ", ")));
  add_diagnostics(verdict_, text);
}

// Lowers what came since the last call. False where a kernel does not compile.
bool Judge::compile() {
  bool ok = true;
  const double left = deadline_.remaining_s();
  for (; compiled_ < kernels_.size(); ++compiled_) {
    const Kernel& kernel = kernels_[compiled_];
    std::string& state = verdict_.compile_targets[clipped(kernel.target, 32)];
    std::string error = kernel.error;
    if (error.empty()) {
      const Lowered lowered = context_.lowering.lower(kernel.ir, kernel.target, kernel.options, overall_);
      if (!lowered.ok) error = fmt::format("kernel {}: {}", kernel.name, lowered.error);
    }
    if (error.empty()) {
      if (state.empty()) state = "ok";
      continue;
    }
    ok = false;
    if (state.empty() || state == "ok") state = clipped(error.substr(0, error.find('\n')), 300);
    if (verdict_.diagnostics.find(error.substr(0, 200)) == std::string::npos)
      add_diagnostics(verdict_, fmt::format("{}: {}", kernel.target, error));
  }
  deadline_ = Deadline::after(left);
  if (!ok && verdict_.fault == Fault::kNone) verdict_.fault = Fault::kCompileError;
  return ok;
}

bool Judge::load() {
  const ChildLimits limits{.cpu_s = context_.options.candidate_timeout_s,
                           .file_bytes = uint64_t{64} << 20,
                           .memory_bytes = context_.options.memory_bytes,
                           .device_memory = context_.options.device_memory};
  child_ = context_.zygote.spawn("candidate", context_.live ? limits.with_gpu() : limits, overall_);
  deadline_ = Deadline::after(limit_s_);
  for (const auto& [layer, state] : child_->layers().items()) {
    verdict_.notes["sandbox." + layer] = state.is_string() ? state.get<std::string>() : state.dump();
  }
  const Json request = {{"op", "load"},
                        {"source", request_.candidate},
                        {"seed", init_seed_ >> 1},
                        {"init", reference_->init},
                        {"tensors", reference_->tensors},
                        {"state", reference_->state},
                        {"sizes", reference_->sizes}};
  std::string detail;
  if (const Silence quiet = child_->channel().send(request, {reference_->payload}, deadline_);
      quiet != Silence::kNone) {
    silence(quiet, detail, "being loaded");
    return false;
  }
  struct Step {
    const char* name;
    const char* doing;
    Stage stage;
  };
  for (const Step& step :
       {Step{"parsed", "being parsed", Stage::kParsed}, Step{"imported", "being imported", Stage::kImported},
        Step{"built", "ModelNew was constructed", Stage::kImported}}) {
    auto frame = next(step.doing);
    if (!frame) {
      compile();
      return false;
    }
    if (string_or(frame->header, "stage", "") != step.name) {
      forged(fmt::format("a message out of order while {}: {}", step.doing, clipped(frame->header.dump(), 200)));
      return false;
    }
    verdict_.stage = std::max(verdict_.stage, step.stage);
    if (step.stage == Stage::kParsed) add_screen(verdict_, frame->header);
    note_own_weights(verdict_, strings_of(frame->header, "own_weights"));
  }
  return true;
}

// Runs one trial; false where nothing more is worth running. In a ghost trial kernels are left out, and an output that
// still agrees shows that they do not matter.
bool Judge::trial(size_t index, bool ghost) {
  // Ask: the inputs, and a nonce that the answer must carry.
  const ReferenceTrial& expected = *reference_->trials[index];
  nonce_ = nonce();
  const Json request = {{"op", "trial"},
                        {"nonce", nonce_},
                        {"inputs", expected.inputs},
                        {"tensors", expected.input_tensors},
                        {"forward_seed", expected.forward_seed},
                        {"ghost", ghost},
                        {"fresh", index == 1 || ghost}};
  const std::span<const std::byte> inputs(expected.payload.data(), expected.input_bytes);
  std::string detail;
  if (const Silence quiet = child_->channel().send(request, {inputs}, deadline_); quiet != Silence::kNone) {
    silence(quiet, detail, "waiting for a trial");
    return false;
  }
  // A ghost trial is its own small protocol: nothing of it but a flag stays in the verdict.
  if (ghost) {
    const Verdict before = verdict_;
    auto frame = next("running without its kernels", 2 * expected.payload.size());
    if (!frame) {
      verdict_ = before;  // without its kernels the candidate fails: they matter
      return true;
    }
    if (frame->header.contains("tensors") &&
        same_outputs(call_result(frame->header.at("outputs"), frame->header, frame->payload), expected,
                     reference_->tolerances))
      add_flag(verdict_, Cheat::kNoKernelEffect, "with every launch left out, the output is the same");
    return true;
  }
  // No answer: what was launched before may still show that the kernels compile.
  auto frame = next("running forward", 2 * expected.payload.size());
  if (!frame) {
    if (compile() && !kernels_.empty()) {
      verdict_.compiled = true;
      verdict_.stage = std::max(verdict_.stage, verdict_.kernels.empty() ? Stage::kCompiled : Stage::kLaunched);
    }
    return false;
  }
  if (string_or(frame->header, "result", "") != nonce_) {
    forged("a result without the trial's nonce: " + clipped(frame->header.dump(), 200));
    return false;
  }
  // Which kernels ran, and what the worker saw of fallbacks and patches.
  const auto names = strings_of(frame->header, "kernels");
  for (const auto& name : names) {
    if (std::find(verdict_.kernels.begin(), verdict_.kernels.end(), name) == verdict_.kernels.end())
      verdict_.kernels.push_back(name);
  }
  const auto swallowed = strings_of(frame->header, "swallowed"), tampered = strings_of(frame->header, "tampered");
  if (!swallowed.empty())
    add_flag(verdict_, Cheat::kKernelFallback, "a launch failed and its error was swallowed: " + swallowed.front());
  if (!tampered.empty()) add_flag(verdict_, Cheat::kMonkeypatch, fmt::format("replaced {}", fmt::join(tampered, ", ")));
  const bool launched = number_or(frame->header, "launches", 0) > 0;
  if (!launched && swallowed.empty())
    add_flag(verdict_, Cheat::kNoKernelLaunched,
             fmt::format("forward of trial {} launched no @triton.jit kernel", index));
  // Compiled: on the GPU a launch says so; elsewhere each kernel is lowered for every target.
  if (context_.live) {
    verdict_.compiled = launched;
    if (launched) verdict_.compile_targets["live"] = "ok";
  } else {
    const bool ok = compile();
    verdict_.compiled = ok && launched && compiled_ > 0;
    if (!ok) return false;
  }
  if (verdict_.compiled) verdict_.stage = std::max(verdict_.stage, Stage::kLaunched);
  // The output itself: a plain tensor, then its bytes against the reference's.
  if (frame->header.contains("subclass")) {
    add_flag(verdict_, Cheat::kLazyOutput,
             "forward returned a " + clipped(string_or(frame->header, "subclass", "?"), 200) + ", not a torch.Tensor");
    return false;
  }
  if (index == 0) {
    std::vector<std::string> ops;
    const Json counts = frame->header.value("torch_ops", Json::object());
    for (const auto& [name, count] : counts.items()) {
      if (ops.size() < 16 && count.is_number_integer())
        ops.push_back(fmt::format("{} x{}", clipped(name, 40), count.get<int64_t>()));
    }
    if (!ops.empty()) verdict_.notes["torch_ops"] = fmt::format("{}", fmt::join(ops, ", "));
  }
  judge_call(call_result(frame->header.at("outputs"), frame->header, frame->payload), expected, index,
             reference_->tolerances, verdict_, trivial_);
  return verdict_.trials.back().passed && !verdict_.cheated();
}

void Judge::run() {
  verdict_.claimed = {"compiled", "compile_targets", "kernels"};
  try {
    if (!load()) return;
    for (size_t i = 0; i < reference_->trials.size(); ++i) {
      if (!trial(i, false)) return;
    }
    if (!verdict_.cheated()) trial(0, true);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    forged(error.what());
  } catch (const nlohmann::json::exception& error) {
    forged("a message without the expected fields");
  }
  if (trivial_ && !reference_->trials.empty())
    add_flag(verdict_, Cheat::kTrivialReference, "the reference's outputs are constant");
  if (verdict_.cheated() || verdict_.fault == Fault::kForbidden) return;
  verdict_.correct = true;
  verdict_.stage = Stage::kCorrect;
}

}  // namespace tritonforge::evaluate
