#pragma once
// The inference engine as other threads see it: one thread owns a Core (core.h) and runs one step after another.
// Everything else reaches it through a queue, emptied between two steps.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "contract/weights.h"
#include "engine/info.h"
#include "engine/options.h"
#include "engine/request.h"
#include "weights/staged.h"

namespace tritonforge::model {
class Model;
class Parts;
}  // namespace tritonforge::model
namespace tritonforge::tokenizer {
class Tokenizer;
}

namespace tritonforge::engine {

class Engine {
 public:
  // Loads model and tokenizer; throws what they throw, kUsage for a bad option, kMachine where the device or its
  // memory is not there. Weight version 0.
  explicit Engine(EngineOptions options);
  // With a model that is there already; the tokenizer may be null: then there is no text and no stop string.
  Engine(EngineOptions options, std::unique_ptr<model::Model> model,
         std::shared_ptr<const tokenizer::Tokenizer> tokenizer);
  ~Engine();  // aborts what runs, each with its last on_output

  const EngineInfo& info() const;
  const tokenizer::Tokenizer* tokenizer() const;

  // The id of the request; kUsage for bad fields or a prompt that leaves no room, kBusy for a full queue.
  Result<std::string> submit(Request request);
  // What was generated so far is delivered with FinishReason::kAbort. Unknown ids are ignored: it may just be over.
  // That of a list is all of its requests'.
  void abort(const std::string& id, const std::string& why = "aborted by request");
  // The same of all requests of a sender, and of nobody else's, whatever id they have.
  void abort_of(std::shared_ptr<const void> sender, const std::string& why);

  // These wait until the engine's thread has carried them out, at most until their deadline: then kTimeout, which says
  // whether the command was withdrawn or is under way. kUnavailable once the thread has ended.
  void abort_all(const std::string& why, Deadline deadline = Deadline::after(60));
  // No step begins after pause() returns, until resume(). Requests are still accepted and wait.
  void pause(PauseMode mode = PauseMode::kInPlace, Deadline deadline = Deadline::after(60));
  void resume(Deadline deadline = Deadline::after(60));
  // Forgets prefixes. Running requests keep their caches.
  void flush_cache(Deadline deadline = Deadline::after(60));
  // Gives memory back, for a trainer on the same device: the KV cache with all that steps need, and the weights, whose
  // content waits in host memory (the first time, its pinned pages are the most of the time). Requests wait, those
  // under way too (what they generated stays, their caches are computed again), until resume_memory(). New weights may
  // come meanwhile: they take their memory again. kMachine: there is no memory, that part stays as it is.
  void release_memory(MemoryParts parts = {}, Deadline deadline = Deadline::after(600));
  void resume_memory(MemoryParts parts = {}, Deadline deadline = Deadline::after(600));

  // Stages on the caller's thread (weights/transport.h), installs between two steps, also when paused; `mode` (the
  // option's where it is left open) says what becomes of requests under way. By the first way of those that `weights`
  // names which works and has what was published. Errors leave the old weights in place, with the
  // one exception of Core::install. version -1: one more than now. Calls are carried out one after another.
  Result<InstalledWeights> update_weights(const PublishedWeights& weights,
                                          std::optional<UpdateMode> mode = std::nullopt,
                                          Deadline deadline = Deadline::after(600));

  // The same of weights that somebody else stages on the caller's thread, all of the model's or a part. Of a part the
  // version stays where none is given.
  using Stage = std::function<weights::StagedWeights(const model::Parts&)>;
  Result<InstalledWeights> update_weights(const Stage& stage, int64_t version,
                                          std::optional<UpdateMode> mode = std::nullopt,
                                          Deadline deadline = Deadline::after(600));
  // A weight's first rows as they are now. Throws what Core::weight throws.
  at::Tensor weight(const std::string& name, int64_t rows, Deadline deadline = Deadline::after(60));

  EngineStats stats() const;
  // Why nothing is to be expected of it now: its last steps failed one after another, or it has requests and no step
  // has ended for options.watchdog_s. "": nothing is wrong. Waits for no step.
  std::string fault() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::engine
