#pragma once
// The engine without its thread: requests become sequences, steps are planned, computed and delivered. One caller at a
// time (engine.h's thread; a test drives it step by step); arrival() alone may be called from any thread.
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/device_lock.h"
#include "engine/info.h"
#include "engine/live.h"
#include "engine/make_runner.h"
#include "engine/options.h"
#include "engine/weight_offload.h"
#include "model/model.h"
#include "weights/staged.h"

namespace tritonforge::engine {

using weights::StagedWeights;

using Arrival = std::unique_ptr<LiveRequest>;
using Ranks = std::vector<std::unique_ptr<model::Model>>;

class Core {
 public:
  // `publish` is given the figures whenever they changed, and before the last answer of a request: who has the answer
  // finds its blocks free. `make` is for tests.
  Core(EngineOptions options, std::unique_ptr<model::Model> model,
       std::shared_ptr<const tokenizer::Tokenizer> tokenizer, std::function<void(const EngineStats&)> publish = nullptr,
       const MakeRunner& make = make_runner);
  // The ranks' parts of a model, options.tp of them.
  Core(EngineOptions options, Ranks ranks, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
       std::function<void(const EngineStats&)> publish = nullptr, const MakeTeamRunner& make = make_team_runner);

  const EngineInfo& info() const { return info_; }
  const model::Model& model() const { return parts_.first(); }  // the first rank's, all of it where there is one
  const model::Parts& parts() const { return parts_; }
  const tokenizer::Tokenizer* tokenizer() const { return tokenizer_.get(); }

  // A request that can be admitted; kUsage for bad fields or a prompt that leaves no room. The id must be set.
  Result<Arrival> arrival(Request request) const;
  // Its samples wait for a step from now on. Where its id is taken by a request that runs, it is answered at once.
  void admit(Arrival arrival);

  // True where step() has something to do: neither paused nor released, and a request is there.
  bool has_work() const {
    return !paused_ && weight_version_ >= 0 && runner_->has_memory() && !offload_.offloaded() &&
           (!scheduler_.idle() || !in_flight_.empty());
  }
  // One step for every sequence that the plan takes; outputs go to their requests. What it throws is for
  // step_out_of_memory() and step_failed().
  void step();
  // The same, and what it throws is dealt with.
  void step_or_recover();
  // Aborts every request and forgets every prefix: what the step left in the cache is not known.
  void step_failed(const std::string& why);
  // After a step that found no memory for its intermediates: all sequences are computed again, half as many at once
  // until the engine has been empty. A sequence that does not fit alone ends its request, and no other.
  void step_out_of_memory(const std::string& why);

  // Aborts what is past its deadline.
  void expire(Clock::time_point now);
  Clock::time_point first_deadline() const;  // of the requests inside; time_point::max() where there is none
  // What was generated so far is delivered with FinishReason::kAbort. Unknown ids are ignored: it may just be over.
  // Or the id of a list.
  void abort(const std::string& id, const std::string& why);
  void abort_of(const void* sender, const std::string& why);
  void abort_all(const std::string& why);
  bool empty() const { return live_.empty(); }

  void pause(PauseMode mode = PauseMode::kInPlace);
  void resume();
  // Forgets prefixes. Running requests keep their caches.
  void flush_cache();
  // Gives memory back: requests wait, those under way too, and go on after resume_memory(), where their caches are
  // computed again. Weights come back as they were, or as the newest update that came meanwhile (install() takes their
  // memory again). Throws kMachine where there is no memory, on the host to keep the weights or on the device to take:
  // that part then stays as it is.
  void release_memory(MemoryParts parts = {});
  void resume_memory(MemoryParts parts = {});
  // From drain() to undrain() no further request is begun; drained() once none is under way.
  void drain() { scheduler_.drain(); }
  void undrain() { scheduler_.undrain(); }
  bool draining() const { return scheduler_.draining(); }
  bool drained() const { return scheduler_.drained(); }  // a step in flight is of nobody then
  // Copies the staged weights into the model; the next step computes with them. Returns their version (`version`, or
  // for -1 one more than now; of a part, that of now) and the checksums of what the model holds now in their place.
  // Throws kCorrupt where a trainer's memory holds others by now: the old weights stay. And where the copying failed,
  // by kCorrupt where somebody changed what was being copied, or by kMachine where there was no memory to round it:
  // then there are no weights, requests are aborted and nothing runs until the next update of all of them.
  InstalledWeights install(const StagedWeights& staged, int64_t version);
  // A weight's first rows, fp32 on the CPU. Throws kNotFound with the nearest name, kConflict while they are away.
  at::Tensor weight(const std::string& name, int64_t rows) const;

  EngineStats stats() const;
  void publish() const;

 private:
  // A step that was queued: what its draws belong to.
  struct Draws {
    LiveSample* sample;  // null where it ended meanwhile
    int64_t rows;        // one more than it has drafts
    int64_t asked = -1;  // among LogitAnswers::draws
  };
  struct Step {
    std::vector<Draws> draws;  // in the order of the rows
    std::span<const kernels::Sampled> drawn;
    int64_t prompt_tokens = 0;
    // Where the runner was asked for more than draws.
    std::vector<LiveSample*> scored;  // whose prompts LogitAnswers::prompts are; null where it ended meanwhile
    const LogitAnswers* answers = nullptr;
  };
  // make: of the runner, where models_ are there.
  Core(EngineOptions options, Ranks ranks, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
       std::function<void(const EngineStats&)> publish, const std::function<SizedRunner(const Core&)>& make);
  using DeviceHolds = std::vector<DeviceLock::Hold>;  // of every rank's device, where others share them
  static std::string first_line(const std::string& text);
  DeviceHolds hold_devices();
  void synchronize() const;  // every rank's device
  TensorChecksums checksums_now(const StagedWeights& staged) const;
  void lose_weights(const std::string& why);
  const Plan& plan();
  void fill(const Plan& plan);
  void forward(const Plan& plan);
  std::optional<Step> draw(const Plan& plan, DeviceHolds& holds);
  void deliver(const Step& step);
  void take(LiveSample& sample, std::span<const kernels::Sampled> drawn, const TokenScores* scores);
  void ask(const Chunk& chunk, int64_t first_token);

  Step read_oldest();
  void forget_steps_in_flight();
  void settle();  // reads what is in flight: afterwards no step is
  void move_memory(const char* what, const std::function<void()>& move);
  void send(LiveRequest& request);
  void end_sample(LiveSample& sample);
  void count_times(const LiveRequest& request);
  void abort(LiveRequest& request, const std::string& why);
  void abort_where(const std::function<bool(const Request&)>& is_meant, const std::string& why);

  const EngineOptions options_;
  const Ranks models_;
  const model::Parts parts_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const std::function<void(const EngineStats&)> publish_;
  const at::Device device_;
  const SizedRunner made_;
  const Sizes& sizes_;
  Runner* const runner_;
  EngineInfo info_;

  BlockPool pool_;
  Scheduler scheduler_;
  WeightOffload offload_;
  std::deque<DeviceLock> device_locks_;  // of each rank's device, in one order for all engines
  std::unordered_map<std::string, Arrival> live_;
  size_t ahead_ = 0;            // steps that may stay in flight while the next one is planned
  std::deque<Step> in_flight_;  // oldest first
  std::vector<kernels::SampleRow> rows_;
  std::vector<Draws> draws_;
  std::vector<LiveSample*> scored_;
  LogitWork work_;  // of the step that is filled in
  std::vector<LiveRequest*> touched_;
  int64_t weight_version_ = 0;
  bool paused_ = false, packed_ = true;  // packed_: the model's panels are of its weights
  EngineStats counters_;
};

}  // namespace tritonforge::engine
