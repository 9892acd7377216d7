#include "evaluate/lowering.h"

#include "base/checksum.h"
#include "evaluate/conversation.h"
#include "evaluate/reference.h"
#include "evaluate/trial.h"

namespace tritonforge::evaluate {
namespace {
constexpr int kJobsPerChild = 500;   // then a fresh one: what a compiler leaks stays bounded
constexpr int kSourcesPerChild = 1;  // what a source did to its compiler reaches no other
constexpr int kAttempts = 3;
constexpr size_t kMaxBinary = 64 << 20;
constexpr size_t kMaxError = 4000, kMaxShape = 64 << 10;  // bytes that are kept of what a compiler says
constexpr size_t kOfAnEntry = 512;                        // beside those

// What a compiler's process answered; it has read a candidate's text.
Lowered answer_of(Frame frame, bool with_binary) {
  Lowered result;
  const Json& header = frame.header;
  result.ok = header.is_object() && header.value("ok", Json()) == Json(true);
  if (!result.ok) {
    const std::string all = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    result.error = string_or(header, "error", all.substr(0, 500));
    return result;
  }
  result.shape = std::move(frame.header);
  if (with_binary) result.binary = std::make_shared<const std::vector<std::byte>>(std::move(frame.payload));
  return result;
}

}  // namespace

LoweringPool::LoweringPool(Children& children, double timeout_s, Elsewhere elsewhere)
    : compilers_(children, "lower", {.cpu_s = 1e6, .address_space = false, .processes = true}, kJobsPerChild),
      source_compilers_(children, "lower", {.cpu_s = 2 * timeout_s, .address_space = false, .processes = true},
                        kSourcesPerChild),
      timeout_s_(timeout_s),
      elsewhere_(std::move(elsewhere)),
      cache_(size_t{128} << 20),
      binaries_(size_t{256} << 20) {}

Lowered LoweringPool::lower(const Language& language, const std::string& text, const std::string& target,
                            const Json& options, Deadline deadline, bool with_binary) {
  const std::string key = checksum(fmt::format("{}\n{}\n{}\n{}", language.name(), target, options.dump(), text));
  if (const auto known = cache_.get(key); known && (!with_binary || !known->ok)) return *known;
  if (with_binary) {
    if (const auto known = binaries_.get(key)) return *known;
  }
  const auto limit = Deadline::after(std::min(timeout_s_, deadline.remaining_s()));
  if (elsewhere_ && target != kThisCpu)
    return keep(key, elsewhere_(language, text, target, options, limit, with_binary));
  ChildPool& compilers = language.compiles_sources() ? source_compilers_ : compilers_;
  ChildPool::Worker worker;
  Frame frame;
  for (int attempt = 1;; ++attempt) {
    worker = compilers.take(deadline);
    std::string detail;
    Silence silence = worker.child->channel().send(
        {{"language", language.name()}, {"target", target}, {"options", options}, {"binary", with_binary}},
        {std::as_bytes(std::span(text))}, limit);
    if (silence == Silence::kNone) silence = worker.child->channel().receive(frame, limit, detail, kMaxBinary);
    if (silence == Silence::kNone) break;
    const std::string how = describe_silence(silence, *worker.child, detail, timeout_s_);
    if (silence == Silence::kClosed && worker.child->orphaned())
      fail(ErrorKind::kUnavailable, "evaluator: the Python parent died while a kernel was compiled");
    // One that was killed says nothing of the kernel; one that every compiler dies of is at fault.
    if (silence == Silence::kClosed && attempt < kAttempts) continue;
    const Lowered failed{.ok = false, .error = "the compiler " + how};
    // Where the evaluation's own time ran out, another one may have more.
    return deadline.expired() ? failed : keep(key, failed);
  }
  compilers.give_back(std::move(worker));
  return keep(key, answer_of(std::move(frame), with_binary));
}

Lowered LoweringPool::keep(const std::string& key, Lowered result) {
  const size_t described = result.shape.dump(-1, ' ', false, Json::error_handler_t::replace).size();
  if (described > kMaxShape) result = {.ok = false, .error = "the compiler describes it in more than 64 KiB"};
  result.error = clipped(result.error, kMaxError);
  Lowered without = result;
  without.binary.reset();
  const size_t cost = kOfAnEntry + described + result.error.size();
  cache_.put(key, std::move(without), cost);
  if (result.binary) binaries_.put(key, result, cost + result.binary->size());
  return result;
}

}  // namespace tritonforge::evaluate
