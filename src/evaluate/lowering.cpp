#include "evaluate/lowering.h"

#include "base/checksum.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {
namespace {
constexpr int kJobsPerChild = 500;   // then a fresh one: what a compiler leaks stays bounded
constexpr int kSourcesPerChild = 1;  // what a source did to its compiler reaches no other
constexpr int kAttempts = 3;
constexpr size_t kMaxBinary = 64 << 20;
}  // namespace

LoweringPool::LoweringPool(Children& children, double timeout_s, Elsewhere elsewhere)
    : compilers_(children, "lower", {.cpu_s = 1e6, .address_space = false, .processes = true}, kJobsPerChild),
      source_compilers_(children, "lower", {.cpu_s = 2 * timeout_s, .address_space = false, .processes = true},
                        kSourcesPerChild),
      timeout_s_(timeout_s),
      elsewhere_(std::move(elsewhere)),
      cache_(1 << 16),
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
    if (!deadline.expired()) cache_.put(key, failed);
    return failed;
  }
  Lowered result;
  result.ok = frame.header.value("ok", false);
  result.error = frame.header.value("error", result.ok ? "" : frame.header.dump().substr(0, 500));
  result.shape = std::move(frame.header);
  compilers.give_back(std::move(worker));
  if (with_binary && result.ok)
    result.binary = std::make_shared<const std::vector<std::byte>>(std::move(frame.payload));
  return keep(key, result);
}

Lowered LoweringPool::keep(const std::string& key, const Lowered& result) {
  Lowered without = result;
  without.binary.reset();
  cache_.put(key, without);
  if (result.binary) binaries_.put(key, result, result.binary->size() + 4096);
  return result;
}

}  // namespace tritonforge::evaluate
