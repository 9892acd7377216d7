#pragma once
// What every stage of a run works with: the recipe, the record, and the roles' servers.
#include <optional>
#include <string>
#include <vector>

#include "base/shared_memory.h"
#include "orchestrate/peers.h"
#include "orchestrate/recipe.h"
#include "orchestrate/run_record.h"
#include "orchestrate/supervisor.h"

namespace tritonforge::orchestrate {

class RunContext {
 public:
  // Chooses the ports; starts nothing.
  RunContext(RecipeConfig config, RunRecord& record, std::unique_ptr<Launcher> launcher);
  RunContext(const RunContext&) = delete;
  ~RunContext();

  const RecipeConfig config;
  const Layout layout;
  RunRecord& record;
  Supervisor supervisor;
  Engines engines;
  Buffer buffer;
  Evaluator evaluator;
  Trainer trainer;
  const std::string dashboard_url;  // "": none

  // Starts what the stages need: router, engines (serving `model`), evaluator, buffer, dashboard.
  void start_services(const fs::path& model);
  // The trainer of one stage ("sft" | "rl"); resumes from its newest checkpoint where there is one.
  void start_trainer(const std::string& stage, const train::TrainConfig& section, const fs::path& model,
                     int64_t total_steps);
  void stop_trainer() { supervisor.stop("trainer"); }

 private:
  const std::string weights_key_;       // of trainer and engines, where weights go over TCP; else empty
  std::optional<SharedFolder> shared_;  // of the trainer's publications: they outlive a trainer that dies
  std::vector<RoleSpec> service_specs(const fs::path& model);
  std::map<std::string, std::string> weights_environment() const;  // the same, with whose certificates
  bool publishes_to_hosts() const;  // trainer and engines share no memory: weights travel through the run's folder
  void put(RoleSpec& spec, std::vector<Place> places) const;  // where the recipe's placement has it
};

// Trainer and engines share no memory, or may part where their host goes.
bool is_apart(const Layout& layout);

// The recipe's; where engine and trainer share its GPU, one candidate cannot take all of the memory.
evaluate::EvaluatorOptions evaluator_options(const RecipeConfig& config);
// Those of an engine: the recipe's section with model, device and degree filled in.
engine::EngineOptions engine_options(const RecipeConfig& config, const fs::path& model);

// The trainer's config for one stage: the recipe's section with model, device, folders and seed filled in.
train::TrainConfig trainer_config(const RecipeConfig& config, const train::TrainConfig& section,
                                  const std::string& stage, const fs::path& model, const fs::path& run_folder,
                                  int64_t total_steps);

}  // namespace tritonforge::orchestrate
