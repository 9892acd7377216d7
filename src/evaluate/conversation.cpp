#include "evaluate/conversation.h"

#include <algorithm>

#include "evaluate/reference.h"
#include "evaluate/trial.h"

namespace tritonforge::evaluate {
namespace {

// Of all the kernels that a candidate launches, every specialisation and target one.
constexpr size_t kMaxKernels = 256, kMaxKernelHeader = 64 << 10, kMaxIrBytes = 64 << 20;

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

std::string string_or(const Json& object, const char* key, const std::string& fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : fallback;
}

int64_t number_or(const Json& object, const char* key, int64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

Ended forged(const std::string& what) { return {.how = Ended::How::kForged, .fault = Fault::kForbidden, .text = what}; }

Ended failure_of(const Frame& frame) {
  const Json& what = frame.header["failed"];
  const std::string text = what.is_object() ? string_or(what, "text", "") : "";
  const auto kind = word_of<Fault>(what.is_object() ? string_or(what, "kind", "runtime_error") : "runtime_error");
  if (!kind || !is_candidates_own(*kind)) return forged("a failure of an unknown kind: " + clipped(what.dump(), 200));
  Ended ended{.how = Ended::How::kFailed,
              .fault = *kind,
              .text = text,
              .kernels = strings_of(frame.header, "kernels"),
              .tampered = strings_of(frame.header, "tampered")};
  const bool while_running = *kind == Fault::kRuntimeError || *kind == Fault::kImportError;
  if (while_running && says_out_of_memory(text)) ended.fault = Fault::kOutOfMemory;
  for (const char* sign : {"PermissionError", "Operation not permitted", "can't start new thread", "BlockingIOError"}) {
    if (text.find(sign) != std::string::npos) ended.fault = Fault::kForbidden;
  }
  return ended;
}

Conversation::Conversation(std::unique_ptr<Child> child, OwnTime& time, const char* who)
    : child_(std::move(child)),
      on_left_(std::make_unique<OnLeft>(time.left, [process = child_.get()] { process->kill(); })),
      time_(time),
      who_(who) {}

std::unique_ptr<Child> Conversation::release() {
  on_left_.reset();
  return std::move(child_);
}

void Conversation::silent(Silence silence, const std::string& detail, const char* doing) {
  check_waited_for(time_.left);
  if (silence == Silence::kGarbled) throw forged(detail);
  const std::string how = describe_silence(silence, *child_, detail, time_.limit_s);
  if (silence == Silence::kClosed && child_->orphaned())
    fail(ErrorKind::kUnavailable, "evaluator: the Python parent died while {}", doing);
  throw Ended{.how = Ended::How::kSilent,
              .fault = fault_of(silence, *child_, how),
              .text = fmt::format("{} {} while {}", who_, how, doing)};
}

void Conversation::send(const Json& header, const std::vector<std::span<const std::byte>>& payload, const char* doing) {
  const Silence quiet = child_->channel().send(header, payload, time_.deadline);
  if (quiet != Silence::kNone) silent(quiet, "", doing);
}

Frame Conversation::receive(const char* doing, size_t payload_bytes) {
  Frame frame;
  std::string detail;
  const Silence quiet = child_->channel().receive(frame, time_.deadline, detail, payload_bytes);
  if (quiet != Silence::kNone) silent(quiet, detail, doing);
  return frame;
}

void Conversation::keep(const Frame& frame) {
  const Json& header = frame.header;
  ir_bytes_ += frame.payload.size();
  if (frame.header_bytes > kMaxKernelHeader)
    throw forged(fmt::format("a kernel's options of {} bytes", frame.header_bytes));
  if (kernels_sent_ == kMaxKernels || ir_bytes_ > kMaxIrBytes) {
    throw Ended{.how = Ended::How::kFailed,
                .fault = Fault::kCompileError,
                .text = fmt::format("the candidate has more than {} compiled forms of kernels, or more than {} MiB of "
                                    "Triton IR: launch fewer specialisations",
                                    kMaxKernels, kMaxIrBytes >> 20)};
  }
  ++kernels_sent_;
  kernels_.push_back({.name = clipped(string_or(header, "kernel", "?"), 200),
                      .target = clipped(string_or(header, "target", ""), 32),
                      .ir = std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size()),
                      .options = header.value("options", Json::object()),
                      .error = clipped(string_or(header, "error", ""), 4000)});
}

Frame Conversation::next(const char* doing, size_t payload_bytes) {
  for (;;) {
    Frame frame = receive(doing, payload_bytes + kPayloadSlack);
    if (frame.header.contains("kernel")) {
      keep(frame);
      continue;
    }
    if (frame.header.contains("fatal")) {
      throw Ended{.how = Ended::How::kFailed,
                  .fault = Fault::kCrashed,
                  .text = "the candidate's process failed: " + clipped(frame.header["fatal"].dump(), 1000)};
    }
    if (frame.header.contains("failed")) throw failure_of(frame);
    return frame;
  }
}

}  // namespace tritonforge::evaluate
