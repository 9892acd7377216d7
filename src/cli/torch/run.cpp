#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/torch/plan.h"
#include "orchestrate/origin.h"
#include "orchestrate/run.h"

namespace tritonforge::cli {

void add_run_command(CLI::App& app) {
  struct RunFlags {
    std::string recipe;
    fs::path like;
    std::vector<std::string> overrides;
    orchestrate::RunOptions run;
    bool dry_run = false;
    void describe(OptionList& v) {
      v("overrides", overrides, spelled("set"), "overrides a value by its path: rl.steps=30");
      v("like", like,
        "in place of a recipe: the folder of a run that is to be made again, into FOLDER-again; models and data must "
        "be what they were");
      v.part(run);
      v("dry_run", dry_run,
        "prints the plan (tritonforge plan) and starts nothing; fails where it cannot run here now");
    }
  };
  auto flags = std::make_shared<RunFlags>();
  auto* command = app.add_subcommand("run", "goes through the stages that a recipe lists: data, sft, rl, bench");
  command->add_option("recipe", flags->recipe, "recipe in YAML, or the name of one that comes with the program");
  add_flags(*command, *flags);
  command
      ->add_flag_callback(
          "--options",
          [] {
            fmt::print("{}", orchestrate::recipe_reference());
            throw CLI::Success();
          },
          "prints every option of a recipe (docs/recipes.md)")
      ->trigger_on_parse();
  command->footer("example: tritonforge run recipes/quickstart.yaml --set rl.steps=10 --set seed=2");
  command->callback([flags] {
    if (flags->recipe.empty() == flags->like.empty())
      fail(ErrorKind::kUsage, "run: {}",
           flags->recipe.empty() ? "name a recipe, or a run with --like" : "--like brings the recipe of that run");
    const orchestrate::RecipeConfig config = flags->like.empty()
                                                 ? orchestrate::load_recipe(flags->recipe, flags->overrides)
                                                 : orchestrate::recipe_like(flags->like, flags->overrides);
    if (!flags->like.empty() && flags->run.output.empty())
      flags->run.output = (flags->like / "").parent_path().string() + "-again";
    if (flags->dry_run) print_plan(config, flags->run.json, /*strict=*/true);
    else orchestrate::run_recipe(config, flags->run);
  });
}

}  // namespace tritonforge::cli
