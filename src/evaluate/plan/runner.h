#pragma once
// Plan mode from the trusted side: child U records, T checks and has every kernel lowered, child P replays on the
// reference's inputs, T compares. Nothing of the candidate runs while it is judged.
#include "evaluate/ir/memory.h"
#include "evaluate/plan/plan.h"
#include "evaluate/plan/profiler.h"
#include "evaluate/plan/tunings.h"
#include "evaluate/runner.h"

namespace tritonforge::evaluate {

// This candidate is no plan, and why: another mode may judge it, where its language has one.
struct NotAPlan {
  std::string reason;
  std::optional<Ended> ended = {};  // its own failure, where it is one
  Stage stage = Stage::kExtracted;  // that it came to
  bool alone = false;               // no other mode can take it
};

// What a candidate's module computes with: the reference's weights, where it has such (by name, or by order and
// shape), or those that its constructor made.
enum class Weights { kReferences, kItsOwn };

class PlanRunner : public Runner {
 public:
  // `time` is the candidate's own, shared by all attempts.
  PlanRunner(const RunContext& context, Weights weights, OwnTime& time);
  ~PlanRunner() override;
  // Each throws NotAPlan, and DeviceFault where process P was lost.
  Loaded load() override;
  Call call(size_t trial, Launches launches) override;
  std::optional<ConfigurationCall> next_configuration() override;
  // Of machine code on a CPU: what it takes, as a claim.
  std::optional<Measured> measure() override;
  std::optional<FullSize> full_size() override;
  // What it takes to count its kernels elsewhere; nullopt where nothing runs that has counters.
  std::optional<Profiler::Job> to_count() const;
  // The call before once more, on a CPU its programs in another order.
  Call again(ir::Schedule schedule);
  // The plan computes with the reference's weights.
  bool took_weights() const { return took_weights_; }

 protected:
  // P: the plan, its texts and constants, the problem's weights, and the kernels' machine code.
  virtual void hand_over();
  // Whether P may serve another plan where this one's replay failed.
  virtual bool outlives_failures() const { return true; }
  void take_replayer();
  // Lowers each kernel for each target; the text that is compiled is the text that is replayed. Fills `binaries_`.
  std::vector<Compiled> compile(const Plan& plan);
  void check_arguments(std::vector<Compiled>& compiled) const;
  using Handed = Profiler::Frame;
  Handed handed_over() const;
  Handed replay_of(size_t trial) const;  // as process P is asked for it, all launches in it
  // How a trial is replayed.
  struct Way {
    bool launch = true;
    int without = -1;  // the kernel that is left out
    ir::Schedule schedule = ir::Schedule::kDrawn;
    bool whole() const { return launch && without < 0; }
  };
  Call replay(size_t trial, const Way& way);
  // From here on the plan is that of `choice`; P has to be told.
  void choose(const Choice& choice);
  void turn_to(const Choice& choice);

  const RunContext& context_;
  OwnTime& time_;
  const std::string device_;                // of the machine code that runs
  const std::vector<std::string> targets_;  // what every kernel must compile for
  const Runs runs_;
  Frame recording_;  // what the plan looks into
  Plan plan_;        // its steps are those of one configuration of each tuning
  std::vector<PlanStep> every_step_;
  Tunings tunings_;
  Choice choice_;
  Work aten_;                      // that it leaves to torch
  Work own_;                       // of its launches, where they are machine code on a CPU
  std::vector<Lowered> binaries_;  // of its kernels, where they run as machine code
  std::optional<Conversation> replayer_;
  bool replayer_sound_ = false;  // it may serve another plan

 private:
  // None where it does not load, in any mode: loaded.ended says why.
  std::optional<Conversation> load_candidate(const Json& how, std::span<const std::byte> init_tensors, Loaded& loaded);
  void record(Loaded& loaded);
  void take_failure(const Frame& frame, const Ended& ended, Loaded& loaded);
  void read_full_size(FullSize& full);
  void ask(size_t trial, const Way& way, Call& call);
  void take_drawn(const ReferenceTrial& expected, Call& call);

  Weights weights_;
  size_t tried_ = 0;  // of the tunings' choices, beyond the first
  struct {
    size_t trial = 0;
    Choice choice;
  } last_;  // that was called with all launches
  int replayers_jobs_ = 0;
  bool took_weights_ = false;
};

// The kernels of a plan with the IR for each target, as the compiler is sent them. Throws NotAPlan where one was not
// recorded for a target.
std::vector<SentKernel> kernels_of(const Plan& plan, const Language& language, const std::vector<std::string>& targets);

struct GpuProblem;
// Whether what process P drew of a trial, behind the first `at` bytes of its answer's payload, is what the trial holds
// (made_alike). Advances `input`, `output` and `at`.
bool drawn_alike(const Frame& answer, const ReferenceTrial& trial, const Tolerances& tolerances, size_t& input,
                 size_t& output, size_t& at);

// Fills the verdict up to stage correct (on a GPU: timed), with own_share, or leaves it alone and returns why this
// candidate is not a plan. Throws kUnavailable where our own machinery failed, DeviceFault where the device or the plan
// cost a process P. `to_count`: where hardware counters are asked for; gets what PlanRunner::to_count gives of what is
// right.
std::optional<NotAPlan> judge_as_plan(const RunContext& context, Verdict& verdict, const GpuProblem* gpu = nullptr,
                                      std::optional<Profiler::Job>* to_count = nullptr);

}  // namespace tritonforge::evaluate
