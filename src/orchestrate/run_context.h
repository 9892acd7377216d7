#pragma once
// What every stage of a run works with: the recipe, the roles' addresses, the record, and the current weights.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/http.h"
#include "orchestrate/recipe.h"
#include "orchestrate/run_record.h"
#include "orchestrate/supervisor.h"

namespace tritonforge::orchestrate {

// The weights that every engine must serve: what a restarted engine is brought up to.
struct PublishedWeights {
  std::string path;  // HF folder or safetensors file (shared memory); "" = the engine's own model
  int64_t version = 0;
  std::map<std::string, std::string> checksums;
};

class RunContext {
 public:
  RunContext(RecipeConfig config, RunRecord& record);
  RunContext(const RunContext&) = delete;
  ~RunContext();

  const RecipeConfig config;
  RunRecord& record;
  std::unique_ptr<Supervisor> supervisor;
  net::HttpClient client;  // every call has the client's deadline

  // Base URLs of the roles; ports are chosen when the context is made.
  std::string router_url, evaluator_url, buffer_url, trainer_url, dashboard_url;

  // Starts what the stages need: router, engines (serving `model`), evaluator, buffer, dashboard.
  void start_services(const fs::path& model);
  // The trainer of one stage ("sft" | "rl"); resumes from its newest checkpoint where there is one.
  void start_trainer(const std::string& stage, const train::TrainConfig& section, const fs::path& model,
                     int64_t total_steps);
  void stop_trainer();
  // Ctrl-C: every call under way or later throws, and the roles are taken down.
  void interrupt();

  // Installs weights on every engine through the router and remembers them for restarts. Throws where an engine's
  // checksums differ from the publisher's.
  void install_weights(PublishedWeights weights);

  Json get(const std::string& url);  // throws as the reply says

  // POST that survives the restart of its role: tries again until `deadline`, waiting for the supervisor to bring the
  // role back. Only for calls that may be repeated. Other errors than an unreachable server are thrown.
  Json call(const std::string& role, const std::string& url, const Json& body, double timeout_s);

 private:
  std::vector<RoleSpec> service_specs(const fs::path& model);
  void register_engine(const std::string& url);
  std::atomic<bool> interrupted_{false};
  std::mutex weights_mutex_;
  PublishedWeights weights_;
  std::vector<std::string> engine_urls_;
};

// The trainer's config for one stage: the recipe's section with model, device, folders and seed filled in.
train::TrainConfig trainer_config(const RecipeConfig& config, const train::TrainConfig& section,
                                  const std::string& stage, const fs::path& model, const fs::path& run_folder,
                                  int64_t total_steps);

}  // namespace tritonforge::orchestrate
