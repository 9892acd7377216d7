#pragma once
// What a request's `backend` names: the language that a candidate's kernels are written in. The plan, its replay and
// the judgement are the same for all; a language says what is compiled, by what, and where the result runs
// (docs/backends.md). One file each; the compilers themselves are modules of worker/tritonforge_worker/languages.
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
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
  // A text of a plan as the compiler gets it.
  virtual std::string source(const std::string& text) const { return text; }
  // A product of float32 matrices in it is of operands cut to tf32: what a mismatch may come from.
  virtual bool cuts_to_tf32(std::string_view) const { return false; }
  // The source is the candidate's own, and its compiler reads whatever it says.
  virtual bool compiles_sources() const { return true; }
  // A number that a launch gives becomes what the parameter is; else it has to be that.
  virtual bool converts_numbers() const { return false; }
};

const Language& language_of(Backend backend);

// What requests are refused for want of a compiler on this machine, as its Python parent found it.
struct Refused {
  std::string what;       // of a request: "backend hip", "target gfx942", "mode live"
  std::string why, mend;  // a command
  std::string text() const;
  Json json() const;
};
class Refusals {
 public:
  Refusals() = default;
  explicit Refusals(const Json& missing);  // worker/tritonforge_worker/compilers.py's
  const std::vector<Refused>& all() const { return all_; }
  const Refused* find(std::string_view what) const;
  // Throws kUnsupported in one line.
  void check(std::string_view what) const;
  Refusals without(std::string_view what) const;
  Json json() const;

 private:
  std::vector<Refused> all_;
};

// Throws kUnsupported in one line: its compiler is missing.
const Language& compiled_language(Backend backend, const Refusals& refusals);
// The same where nothing but a plan is possible in this language and `mode` is another.
const Language& usable_language(Backend backend, EvaluationMode mode, const Refusals& refusals);

// Those whose compiler is here, by name.
std::vector<std::string> usable_languages(const Refusals& refusals);
std::vector<std::string> usable_targets(const Refusals& refusals);  // what is compiled for here

}  // namespace tritonforge::evaluate
