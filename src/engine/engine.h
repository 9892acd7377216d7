#pragma once
// The inference engine: one thread that owns model, cache and scheduler and runs one step after another. Everything
// else reaches it through a queue of commands, carried out between two steps.
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/filesystem.h"
#include "engine/options.h"
#include "engine/request.h"

namespace tritonforge::model {
class Model;
}
namespace tritonforge::tokenizer {
class Tokenizer;
}

namespace tritonforge::engine {

struct EngineInfo {
  std::string model_path, device, dtype, family;
  int64_t vocab_size = 0, max_context = 0, kv_cache_tokens = 0, parameters = 0;
  std::vector<int64_t> eos_token_ids;
  bool has_tokenizer = false;
};

struct EngineStats {
  int64_t running = 0, waiting = 0, weight_version = 0;
  int64_t kv_tokens_free = 0, kv_tokens_total = 0, prefix_blocks = 0;
  int64_t steps = 0, prompt_tokens = 0, generated_tokens = 0, cached_tokens = 0, preemptions = 0, failed_steps = 0;
  int64_t finished_requests = 0, aborted_requests = 0;
  double step_seconds = 0;  // spent in steps since the start
  bool paused = false, memory_released = false;
  int64_t consecutive_failures = 0;
  std::string last_failure;  // of a step; empty while the last one went well
};

struct InstalledWeights {
  int64_t version;
  std::map<std::string, std::string> checksums;  // read back from the model after the swap
};

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

  // The id of the request; kUsage for bad fields or a prompt that leaves no room, kUnavailable for a full queue.
  Result<std::string> submit(Request request);
  // What was generated so far is delivered with FinishReason::kAbort. Unknown ids are ignored: it may just be over.
  void abort(const std::string& id, const std::string& why = "aborted by request");
  void abort_all(const std::string& why);
  // No step begins after pause() returns, until resume(). Requests are still accepted and wait.
  void pause();
  void resume();
  // Forgets prefixes. Running requests keep their caches.
  void flush_cache();
  // Gives the KV cache's memory back, for a trainer on the same device. Requests wait, those under way too (what they
  // generated stays, their caches are computed again), until resume_memory(). Weights stay.
  void release_memory();
  void resume_memory();  // throws kMachine where the memory is not free: it stays released

  // Stages on the caller's thread (stage_weights in engine/weights.h), installs between two steps, also when paused.
  // Errors leave the old weights in place. version -1: one more than now. Calls are carried out one after another.
  Result<InstalledWeights> update_weights(const fs::path& path, int64_t version,
                                          const std::map<std::string, std::string>& checksums);

  EngineStats stats() const;
  // True where the engine's thread is alive and the last steps did not all fail.
  bool healthy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::engine
