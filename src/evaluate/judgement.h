#pragma once
// The verdict on one candidate as a function of what a runner saw of it: no process, no clock, no random number. The
// same judgement whoever called forward, the candidate's own process or a replay of its plan.
#include <optional>
#include <string>
#include <vector>

#include "contract/verdict.h"
#include "evaluate/conversation.h"
#include "evaluate/plan/work.h"
#include "evaluate/reference.h"
#include "evaluate/trial.h"

namespace tritonforge::evaluate {

// A kernel for one target; `error` is empty where it compiles, and then `resources` may say what it takes, and
// `parameters` what it is given (plan/arguments.h).
struct Compiled {
  std::string target, error, resources = {};
  Json parameters = nullptr;
  bool tuner_skips = false;  // the error is one that Triton's autotuner goes on after
};

// Up to where forward can be called, or to where it ended.
struct Loaded {
  Json layers = Json::object();  // of the sandbox: {layer: state}
  std::vector<Flag> doubts;      // what the source says before it runs
  Stage stage = Stage::kNone;    // that it came to
  std::vector<std::string> own_weights;
  std::vector<std::string> claimed;  // fields of the verdict, beside those of its mode
  std::string autotune;              // which configurations of its kernels are not run, and why
  std::optional<Ended> ended;
  bool launched = false;  // kernels, before it ended
  std::vector<Compiled> compiled;
  // Of a plan: what is replayed. Nothing of it is the candidate's word.
  struct Recorded {
    size_t launches = 0, steps = 0;
    std::vector<std::string> kernels;  // names, in order of their launches
    Work aten;
    std::string kind = "@triton.jit kernel";  // what forward must launch
    std::string not_run;                      // why its launches are not run here
    std::string heaviest;                     // of torch's calls the one that computes most
    std::vector<std::string> in_tf32;         // kernels whose products of float32 are of operands cut to tf32
  };
  std::optional<Recorded> recorded;
};

// What the candidate's own process says of a call: its word, and nothing in it can make a verdict better than right
// outputs alone would.
struct Report {
  bool launched = false;
  std::vector<std::string> kernels, swallowed, tampered;
  std::string subclass;                // what forward returned in place of plain tensors
  std::vector<std::string> torch_ops;  // "matmul x2"
};

// One call of forward, or of its replay.
struct Call {
  std::optional<Ended> ended;
  std::vector<Compiled> compiled;                             // kernels that came with it
  std::optional<Report> report;                               // where the candidate's process made the call
  std::vector<std::pair<std::string, std::string>> findings;  // of a replay: ("race", where)
  std::optional<Work> own, aten;  // of a replay that was weighed: its launches' work, and what it left to torch
  std::optional<CallResult> result;
  std::optional<WholeCall> whole;  // of a drawn trial: `result` holds samples
  Frame frame;                     // what `result` looks into
};

// A call with another configuration of autotuned kernels; nullopt: it was not run.
struct ConfigurationCall {
  std::string name;
  size_t trial = 0;
  std::optional<Call> call;
};

// What a device shows of a plan whose trials passed.
struct Measured {
  Work own;                    // of its launches that matter, for own_share
  std::optional<Work> aten;    // that it leaves to torch, where that is other than in its trials
  std::optional<Ended> ended;  // while it was timed
  std::vector<Flag> flags;     // of timed calls
  std::map<std::string, std::string> notes;
  struct Times {
    Timing runtime, ref_runtime;
    double speedup = 0, low = 0, high = 0;
    Timing eager, torch_compile;  // no samples: it was not timed
    double eager_speedup = 0, torch_compile_speedup = 0;
    Profile profile;
  };
  std::optional<Times> times;
  // By a clock that the candidate's machine code could reach.
  struct Claimed {
    Timing runtime, ref_runtime;
    double low = 0, high = 0;  // of the speedup
  };
  std::optional<Claimed> claimed;
};

// A call as it is at the problem's own sizes, without data.
struct FullSize {
  std::string where;                // "at the problem's own size (N = 4096)"
  std::vector<std::string> failed;  // what the compiler's front end refuses
  std::vector<Compiled> compiled;
  size_t launches = 0;
  std::vector<std::string> more_by_torch;  // what torch is asked for there alone
  std::string mismatch;                    // how its outputs are not the reference's, whatever is in them
  std::string note;                        // why none of it is known, or what of it is not
};

class Judgement {
 public:
  // `begun`: mode, device and what was noted before. `reference` is looked at while this lives.
  Judgement(const ReferenceData& reference, double min_own_share, Verdict begun);
  // In order; each says whether anything more is worth running.
  bool take(const Loaded& loaded);
  bool take(const Call& call, size_t trial);
  bool take(const ConfigurationCall& other);
  bool take(const Measured& measured);
  bool take_without_launches(const Call& call);
  bool take(const FullSize& full);
  // After all of them: it is correct, and timed where it was.
  void accept();
  const Verdict& verdict() const { return verdict_; }

 private:
  void end(const Ended& ended);
  bool take(const std::vector<Compiled>& compiled, const std::string& where);
  void note_launches(const Report& report, size_t trial);
  bool take(const Report& report);
  void hint_at_tf32(const Trial& trial);
  void check_layout(const Call& call, const ReferenceTrial& expected);
  void weigh(const Work& own);
  void leave_not_run();

  const ReferenceData& reference_;
  double min_own_share_;
  Verdict verdict_;
  std::optional<Loaded::Recorded> recorded_;
  bool any_compiled_ = false, constant_ = true;
};

}  // namespace tritonforge::evaluate
