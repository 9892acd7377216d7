#pragma once
// The run's folder: what happened, for the dashboard, the report, and --resume.
//   recipe.yaml       the whole config with defaults
//   state.json        stages that were begun, those that are done, and their results (atomic)
//   status.json       roles, stage, progress, and whether the run goes on (atomic, about once a second)
//   steps.jsonl       one line a training step
//   trajectories.jsonl  rl.transcripts of each group's trajectories, newest last
//   problems.jsonl    the source of every problem that these are of
//   bench-STAGE.json  the answers that a bench measured, with their verdicts
//   bench-STAGE/      its figures, its samples as Parquet and as KernelBench has them, its report (bench_results.h)
//   result.json       the table, at the end
//   models/{sft,rl}/  Hugging Face folders; checkpoints/, logs/, buffer.sqlite
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/filesystem.h"
#include "base/json.h"
#include "contract/lease.h"
#include "contract/step.h"
#include "orchestrate/idle_watch.h"
#include "orchestrate/pace.h"
#include "orchestrate/supervisor.h"

namespace tritonforge::orchestrate {

struct BenchSpeed {                    // of correct samples against one baseline
  std::map<std::string, double> fast;  // "1.0" -> share of all; empty where nothing was timed against it
  double geo_mean = 0, median = 0;     // over those that were timed
};

struct BenchRow {     // a line of the table
  std::string stage;  // base | sft | rl
  std::string label;  // as the table names these weights: "SFT+RL"
  int64_t turns = 1, samples = 0;
  int64_t failed = 0;  // samples beside those that a failure of ours left without a verdict; they are in no rate
  double compile_rate = 0, pass_at_1 = 0, ci_low = 0, ci_high = 0;
  // Of rows with several turns: unbiased pass@k of single turns, k = turns; what as many answers give without feedback.
  // Absent where no problem has k samples.
  std::optional<double> single_turn_pass_at_k;
  BenchSpeed eager, torch_compile;
};
Json to_json(const BenchRow& row);
BenchRow bench_row_from_json(const Json& json);

// One RL step: what was generated for it, what training on it was, and where the time went.
struct RlStep {
  StepResult trained;
  RolloutFigures rollout;
  int64_t dropped = 0;                                         // groups that taught nothing
  int64_t replayed = 0;                                        // groups of earlier steps
  double collect_s = 0, train_s = 0, sync_s = 0, seconds = 0;  // wait for the groups, step, new weights; all of it
  std::string warning;                                         // of LearningWatch
  IdleShares idle;
};

// A run was begun in this folder: --resume goes on with it.
bool holds_run(const fs::path& folder);

class RunRecord {
 public:
  // Opens (resume) or creates the folder and takes it for this process and those that it starts: after a kill -9 the
  // folder is free once the last of them is gone. Throws kUsage where it holds a run and resume is false, kNotFound
  // where it holds none and resume is true, kConflict where another run has it and keeps it for some seconds.
  RunRecord(fs::path folder, bool resume);
  const fs::path& folder() const { return folder_; }

  bool stage_done(const std::string& stage) const;
  // Its input has been read and its first work is about to be asked for: from here on its options decide the result.
  void begin_stage(const std::string& stage);
  std::vector<std::string> begun_stages() const;
  // With the rows that the stage adds to the table, and the leases that are to be committed for it: all or nothing.
  void finish_stage(const std::string& stage, double wall_s, const std::vector<BenchRow>& rows = {},
                    const std::vector<std::string>& leases = {});
  // The stage is to go on: neither it nor what was measured after it is done any more. Throws kNotFound where its
  // checkpoint is gone.
  void reopen(const std::string& stage);
  // How often it was: what is measured after it has other names each time.
  int64_t times_reopened(const std::string& stage) const;
  // Of the stages that are done, those of a run that was stopped before it had committed them among them.
  std::vector<std::string> leases_to_commit() const;
  void leases_are_committed();
  std::vector<BenchRow> rows() const;
  std::map<std::string, double> wall_s() const;

  // A line of steps.jsonl; a step written before is not written twice.
  void add_sft_step(const StepResult& trained);
  void add_rl_step(const RlStep& step);
  int64_t last_step(const std::string& stage) const;  // 0: none
  // Where a trainer that has not trained step `next` yet is to begin: at `next`, or at the one before where its line is
  // missing here, since the run ended between the training and the record. It is answered from the trainer's memory.
  int64_t first_step(const std::string& stage, int64_t next) const;
  std::vector<Json> take_new_steps();  // those added since they were last taken, which are the taker's from here on
  void add_transcripts(const std::vector<Trajectory>& transcripts, int64_t step);  // lines of trajectories.jsonl
  void add_problem(const std::string& id, const std::string& source);              // a line of problems.jsonl, once
  // bench-STAGE.json: what was answered to each problem, and its verdict.
  void write_bench(const std::string& stage, const std::vector<std::vector<Trajectory>>& by_problem);
  // What is to be done before the run is finished, in this order: with what is done, in status.json.
  void set_plan(std::vector<std::string> stages);
  void set_progress(const std::string& stage, int64_t done, int64_t total, const std::string& note = "");
  void write_status(const std::vector<RoleStatus>& roles, const std::string& run_name);
  // How the run ended, for status.json: "finished", "stopped" or "failed", and why.
  void set_end(const std::string& state, const std::string& reason);
  void write_result(int64_t seed);

  struct Progress {
    std::string stage, note;  // note: what came of what is done
    int64_t done = 0, total = 0;
    double eta_s = 0, elapsed_s = 0;  // of this stage; eta_s 0: nothing of it is done yet
    double run_eta_s = 0;             // this stage's and, for each one after it, what one of its kind took here
    bool run_eta_is_least = false;    // there was none of its kind yet: the run takes longer than run_eta_s
  };
  Progress progress() const;
  double started() const;  // unix seconds, of the run's first start

 private:
  void save_state() const;
  void cut_transcripts() const;
  void require_buffer() const;
  std::vector<std::string> left() const;
  std::optional<double> took(const std::string& kind) const;
  void add_step(const std::string& stage, int64_t number, Json step);
  // The folder's .lock file, which the processes that are started inherit.
  fs::path folder_;
  Descriptor lock_;           // that says that a run uses the folder
  std::mutex writing_;        // of who adds to the folder: kept while the disk takes it; taken before mutex_
  mutable std::mutex mutex_;  // of the fields: for no longer than a look, for the terminal and status.json
  std::vector<std::string> begun_, done_, plan_;
  double started_;
  std::map<std::string, double> wall_s_;
  std::vector<BenchRow> rows_;
  std::vector<std::string> leases_to_commit_;
  std::map<std::string, int64_t> last_step_, reopened_;
  std::vector<Json> new_steps_;
  std::set<std::string> problems_;  // under writing_
  Progress progress_;
  std::string state_ = "running", reason_;
  Pace pace_;
  Clock::time_point stage_start_ = Clock::now();
};

// The table as text: stage x turns, compile rate, pass@1 with its interval, fast_1 where timed. "" without rows.
std::string format_table(const std::vector<BenchRow>& rows);

}  // namespace tritonforge::orchestrate
