#include <memory>

#include "cli/commands.h"
#include "orchestrate/run.h"

namespace tritonforge::cli {

void add_run_command(CLI::App& app) {
  struct Options {
    std::string recipe;
    std::vector<std::string> overrides;
    orchestrate::RunOptions run;
    bool dry_run = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("run", "goes through the stages that a recipe lists: data, sft, rl, bench");
  command->add_option("recipe", options->recipe, "recipe in YAML")->required();
  command->add_option("--set", options->overrides, "overrides a value by its path: rl.steps=30")
      ->allow_extra_args(false);
  command->add_option("--output", options->run.output, "the run's folder (default runs/NAME-seedN)");
  command->add_flag("--resume", options->run.resume, "goes on with the run in the folder");
  command->add_flag("--dry-run", options->dry_run, "prints the plan and starts nothing");
  command->add_flag("--json", options->run.json, "prints result.json instead of the table");
  command->footer("example: tritonforge run recipes/quickstart.yaml --set rl.steps=10 --set seed=2");
  command->callback([options] {
    const orchestrate::RecipeConfig config = orchestrate::load_recipe(options->recipe, options->overrides);
    if (options->dry_run) orchestrate::print_plan(config);
    else orchestrate::run_recipe(config, options->run);
  });
}

}  // namespace tritonforge::cli
