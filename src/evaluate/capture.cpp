#include "evaluate/capture.h"

#include <algorithm>

#include "evaluate/conversation.h"

namespace tritonforge::evaluate {
namespace {

// Inductor writes nothing but what the module's own code does.
ChildLimits limits() { return {.cpu_s = 120, .file_bytes = uint64_t{16} << 20}; }

Error refused(std::string why) {
  std::replace(why.begin(), why.end(), '\n', ' ');
  return {ErrorKind::kUnsupported, why};
}

// Without what sizes are written with: a problem within its budget has other sizes and nothing else.
std::string without_numbers(std::string_view source) {
  std::string rest;
  for (const char c : source) {
    if (std::string_view("0123456789+-*/() \t").find(c) == std::string_view::npos) rest += c;
  }
  return rest;
}

}  // namespace

Capturer::Capturer(const CaptureOptions& options) : options_(options), zygote_({.captures = true}) {}

Result<Captured> Capturer::capture(const std::string& source) {
  const auto deadline = Deadline::after(options_.timeout_s);
  const auto child = zygote_.spawn("capture", limits(), deadline);
  Json request{{"source", source}, {"gemm", name_of(options_.gemm)}};
  if (options_.budget != Budget{})
    request["budget"] = {{"elements", options_.budget.elements}, {"flops", options_.budget.flops}};
  Frame frame;
  std::string detail;
  Silence silence = child->channel().send(request, {}, deadline);
  if (silence == Silence::kNone) silence = child->channel().receive(frame, deadline, detail, 0);
  if (silence != Silence::kNone) {
    if (silence == Silence::kClosed && child->orphaned())
      fail(ErrorKind::kUnavailable, "capture: the Python parent died under a problem's code");
    return refused("the problem's process " + describe_silence(silence, *child, detail, options_.timeout_s));
  }
  const Captured captured{string_or(frame.header, "problem", ""), string_or(frame.header, "solution", "")};
  if (captured.problem.empty() || captured.solution.empty())
    return refused(string_or(frame.header, "refused", "the problem's process sent no answer"));
  if (captured.solution.size() > static_cast<size_t>(options_.max_bytes))
    return refused(fmt::format("the solution is too long: {} bytes", captured.solution.size()));
  if (without_numbers(captured.problem) != without_numbers(source))
    return refused("the problem's process answered with another problem");
  return captured;
}

}  // namespace tritonforge::evaluate
