#include "evaluate/plan/gpu_replayers.h"

#include "evaluate/reference.h"

namespace tritonforge::evaluate {
namespace {

// Then a fresh one: what a driver leaks stays bounded, and so does what one candidate's kernels could leave for others.
constexpr int kPlansPerProcess = 64;

ChildLimits limits_of(const EvaluatorOptions& options, const std::string& granted) {
  ChildLimits limits = ChildLimits{.file_bytes = uint64_t{1} << 20, .memory_bytes = options.memory_bytes}.with_gpu(
      granted);
  limits.cpu_s = 3600;
  return limits;
}

}  // namespace

GpuReplayers::GpuReplayers(Children& children, const EvaluatorOptions& options, const std::string& granted)
    : granted_(granted), pool_(pool(children, options)), references_(pool(children, options)) {
  pool_.give_back(pool_.take(Deadline::after(60)));
  measuring_.emplace(device_.uuid);
  constexpr double kOurPart = 0.85;  // contexts, and what allocators keep, are the rest
  memory_.emplace(kOurPart * device_.memory);
}

ChildPool GpuReplayers::pool(Children& children, const EvaluatorOptions& options) {
  return {children, "replay", limits_of(options, granted_), kPlansPerProcess,
          [this](Child& child, Deadline deadline) { open(child, deadline); }};
}

namespace {

GpuDevice device_of(const Json& found) {
  return {.name = found.at("name"),
          .uuid = found.at("uuid"),
          .target = found.at("target"),
          .multiprocessors = found.at("multiprocessors"),
          .l2 = found.at("l2"),
          .memory = found.at("memory"),
          .bytes_per_s = found.at("bytes_per_s"),
          .clock_hz = found.at("clock_hz")};
}

}  // namespace

void GpuReplayers::open(Child& child, Deadline deadline) {
  const bool first = device_.uuid.empty();
  Frame frame;
  std::string detail;
  Silence silence = child.channel().send({{"open", true}}, {}, deadline);
  if (silence == Silence::kNone) silence = child.channel().receive(frame, deadline, detail, 1 << 16);
  std::string why = silence != Silence::kNone ? "it " + describe_silence(silence, child, detail, 0) : "";
  try {
    if (why.empty() && frame.header.contains("failed")) why = frame.header["failed"].value("text", "it says not why");
    else if (why.empty() && first) device_ = device_of(frame.header.at("device"));
  } catch (const nlohmann::json::exception&) {
    why = "its answer lacks a field, or one has the wrong type";
  }
  if (!why.empty() && first) fail(ErrorKind::kMachine, "evaluator: no replayer on the GPU: {}", why);
  if (!why.empty()) throw DeviceFault{"no replayer on the GPU: " + why};
}

}  // namespace tritonforge::evaluate
