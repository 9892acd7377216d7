#pragma once
// What a recipe would start, before anything is: processes, hosts, devices, ports. What they take and how long a step
// lasts is filled in by who knows the model's arithmetic (cli/estimates.h).
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {

using Parts = std::vector<std::pair<std::string, double>>;  // named, in the order they are shown

struct PlannedProcess {
  std::string role;    // trainer, engine-0, evaluator, router, buffer, dashboard; model: a chat server
  std::string group;   // actor, rollout, eval; "": it stays with the orchestrator
  int64_t rank = 0;    // of a trainer group
  Place place;         // not confined to devices without a placement
  std::string device;  // as text: "cpu", "cuda:0", "a: GPU 0, 1", "external"
  std::string port;    // where it listens, on loopback; "": nowhere
  std::string detail;
  Parts memory;      // bytes of its device; empty: not known before the problems are
  double limit = 0;  // bytes that are there for it; 0: not known
  double bytes() const;
};

struct StepTime {
  std::string stage;  // sft, rl
  Parts seconds;
  double total = 0;  // less than their sum where they overlap
};

struct Plan {
  std::string name;
  int64_t seed = 0;
  std::vector<std::string> stages;
  Layout layout;
  std::vector<PlannedProcess> processes;
  std::vector<StepTime> steps;
  std::vector<std::string> notes;
  std::string not_ready;  // the first thing that keeps it from running here now; "": nothing
};

Plan make_plan(const RecipeConfig& config);  // throws as Layout does; asks nothing of this machine
std::string format_plan(const Plan& plan);
Json to_json(const Plan& plan);

}  // namespace tritonforge::orchestrate
