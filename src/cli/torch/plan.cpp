#include "cli/torch/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/torch/estimates.h"
#include "orchestrate/preflight.h"

namespace tritonforge::cli {

void print_plan(const orchestrate::RecipeConfig& config, bool json, bool strict) {
  orchestrate::Plan plan;
  if (strict) {
    orchestrate::check_plan(config);
    plan = orchestrate::make_plan(config);
    estimate(plan, config);
  } else {
    plan = orchestrate::make_plan(config);
    estimate(plan, config);
    try {
      orchestrate::check_plan(config);
    } catch (const Error& error) {
      plan.not_ready = error.what();
    }
  }
  std::ranges::copy(orchestrate::doubts(config), std::back_inserter(plan.notes));
  if (plan.not_ready.empty())
    std::ranges::copy(orchestrate::doubts_of_problems(config), std::back_inserter(plan.notes));
  fmt::print("{}", json ? orchestrate::to_json(plan).dump(2) + "\n" : orchestrate::format_plan(plan));
}

void add_plan_command(CLI::App& app) {
  struct PlanFlags {
    std::string recipe;
    std::vector<std::string> overrides;
    bool json = false;
    void describe(OptionList& v) {
      v("overrides", overrides, spelled("set"), "overrides a value by its path: placement.actor.tp=4");
      v("json", json, "prints one JSON document");
    }
  };
  auto flags = std::make_shared<PlanFlags>();
  auto* command = app.add_subcommand(
      "plan", "says what a recipe would start: processes, hosts, devices, ports, memory, time of a step");
  command->add_option("recipe", flags->recipe, "recipe in YAML")->required();
  add_flags(*command, *flags);
  command->footer("example: tritonforge plan recipes/qwen3-8b-rl.yaml --set placement.gpu=H200");
  command->callback(
      [flags] { print_plan(orchestrate::load_recipe(flags->recipe, flags->overrides), flags->json, false); });
}

}  // namespace tritonforge::cli
