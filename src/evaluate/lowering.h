#pragma once
// Compiles Triton IR, or a kernel's source, to machine code in a child that never runs candidate code. Results are
// shared by the hash of the text, so only what this side had compiled itself is ever reused.
#include <functional>
#include <string>

#include "evaluate/cache.h"
#include "evaluate/child_pool.h"
#include "evaluate/languages/language.h"
#include "evaluate/options.h"

namespace tritonforge::evaluate {

struct Lowered {
  bool ok = false;
  std::string error;  // the compiler's text
  // How it is launched: {"entry", "shared": bytes a block, "warps", "ctas", "cooperative", "dependent", "scratch"}, and
  // what else its language says ("resources": what the compiler tells of it, in one line).
  Json shape;
  std::shared_ptr<const std::vector<std::byte>> binary;  // where it was asked for
};

class LoweringPool {
 public:
  // Asked in the place of children of this process: compile servers (compile_server.h). Throws kUnavailable where none
  // of them can be had.
  using Elsewhere = std::function<Lowered(const Language& language, const std::string& text, const std::string& target,
                                          const Json& options, Deadline deadline, bool with_binary)>;
  // `timeout_s`: of one kernel.
  explicit LoweringPool(Children& children, double timeout_s = EvaluatorOptions().compile_timeout_s,
                        Elsewhere elsewhere = {});
  // `text`: of `language`. `target`: kThisCpu is always compiled for here. `options`: num_warps and so on, as the
  // launch gave them. A compiler that crashes or never ends is an error result. Throws kUnavailable where its Python
  // parent died: that is no fault of the kernel's.
  Lowered lower(const Language& language, const std::string& text, const std::string& target, const Json& options,
                Deadline deadline, bool with_binary = false);
  size_t hits() const { return cache_.hits(); }
  size_t misses() const { return cache_.misses(); }

 private:
  // Whoever compiled it: no text is longer than a reader needs.
  Lowered keep(const std::string& key, Lowered result);

  ChildPool compilers_, source_compilers_;
  const double timeout_s_;
  const Elsewhere elsewhere_;
  LruCache<Lowered> cache_, binaries_;  // by bytes; the first without binaries
};

}  // namespace tritonforge::evaluate
