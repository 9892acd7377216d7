#pragma once
// What a request's `backend` names: the language that a candidate's kernels are written in. The plan, its replay and
// the judgement are the same for all; a language says what is compiled, by what, and where the result runs
// (docs/backends.md). One file each; the compilers themselves are modules of worker/tritonforge_worker/languages.
#include <string>
#include <string_view>
#include <vector>

#include "contract/rollout.h"
#include "contract/verdict.h"
#include "evaluate/children.h"

namespace tritonforge::evaluate {

// A target beside those of GPUs: the CPU of the machine that compiles, and no other one's.
inline constexpr std::string_view kThisCpu = "cpu";

// The machine code of a plan's kernels, on a device of an evaluator.
enum class Runs {
  kInterpreted,  // the plan's IR is evaluated by the replayer itself
  kOnGpu,        // loaded by the driver
  kNatively,     // as code of the replayer's own process, which therefore is believed nothing
  kNowhere,
};

class Language {
 public:
  virtual ~Language() = default;
  virtual Backend backend() const = 0;
  std::string_view name() const { return name_of(backend()); }
  // "@triton.jit kernel": what forward must launch.
  virtual std::string_view kernel() const = 0;
  // What every kernel is compiled for, where `asked` is the request's; what runs on `device` ("cpu", or a GPU's target)
  // is among it.
  virtual std::vector<std::string> targets(const std::vector<Target>& asked, std::string_view device) const = 0;
  virtual Runs runs(std::string_view device) const = 0;
  // What it takes to run it, where that is not here.
  virtual std::string_view runs_on() const { return "any device"; }
  // Modes other than plan: a process of the candidate's own runs it.
  virtual bool runs_in_the_candidates_process() const { return false; }
  // Where its compiler is not here: the command that installs it.
  virtual std::string missing() const { return ""; }
  // A text of a plan as the compiler gets it.
  virtual std::string source(const std::string& text) const { return text; }
  // The source is the candidate's own, and its compiler reads whatever it says.
  virtual bool compiles_sources() const { return true; }
};

const Language& language_of(Backend backend);

// Throws kUnsupported in one line: its compiler is missing.
const Language& compiled_language(Backend backend);
// The same where nothing but a plan is possible in this language and `mode` is another.
const Language& usable_language(Backend backend, EvaluationMode mode);

// Those whose compiler is here, by name.
std::vector<std::string> usable_languages();

}  // namespace tritonforge::evaluate
