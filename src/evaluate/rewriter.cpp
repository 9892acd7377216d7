#include "evaluate/rewriter.h"

#include <algorithm>

#include "evaluate/conversation.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {
namespace {

constexpr double kTimeoutS = 30;  // of one solution

ChildLimits limits() { return {.cpu_s = 86400, .file_bytes = uint64_t{1} << 20}; }  // a child reads a whole data set

}  // namespace

Rewriter::Rewriter() : zygote_({.captures = true}) {}

std::unique_ptr<Child> Rewriter::take(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto child = std::move(idle_.back());
      idle_.pop_back();
      return child;
    }
  }
  return zygote_.spawn("rewrite", limits(), deadline);
}

Result<std::string> Rewriter::rewrite(const std::string& solution) {
  const auto deadline = Deadline::after(kTimeoutS);
  auto child = take(deadline);
  Frame frame;
  std::string detail;
  Silence silence = child->channel().send(Json{{"solution", solution}}, {}, deadline);
  if (silence == Silence::kNone) silence = child->channel().receive(frame, deadline, detail, 0);
  if (silence != Silence::kNone) {
    if (silence == Silence::kClosed && child->orphaned())
      fail(ErrorKind::kUnavailable, "rewrite: the Python parent died");
    return Error(ErrorKind::kUnsupported,
                 "its reader gives no answer: it " + describe_silence(silence, *child, detail, kTimeoutS));
  }
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(child));
  }
  std::string rewritten = string_or(frame.header, "solution", "");
  if (!rewritten.empty()) return rewritten;
  std::string why = string_or(frame.header, "refused", "its reader gives no answer");
  std::replace(why.begin(), why.end(), '\n', ' ');
  return Error(ErrorKind::kUnsupported, why);
}

}  // namespace tritonforge::evaluate
