#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/api.h"
#include "cli/commands.h"
#include "contract/schema.h"

namespace tritonforge::cli {
namespace {

Json schema_of(const std::string& name) {
  if (name == "verdict") return verdict_schema();
  if (name == "trajectory") return trajectory_schema();
  if (name == "transcript") return transcript_schema();
  std::vector<std::string> known = api_roles();
  if (std::find(known.begin(), known.end(), name) != known.end()) return openapi_document(name);
  known.insert(known.end(), {"verdict", "trajectory", "transcript"});
  fail(ErrorKind::kUsage, "there is no schema of '{}'{}", name, nearest_hint(name, known));
}

}  // namespace

void add_schema_command(CLI::App& app) {
  auto* command = app.add_subcommand("schema", "prints JSON Schema of what is stored, OpenAPI of what servers answer");
  auto name = std::make_shared<std::string>();
  command
      ->add_option("name", *name,
                   "verdict | trajectory | transcript (JSON Schema); engine | router | buffer | generator | evaluator "
                   "| trainer | dashboard (OpenAPI 3.1)")
      ->required();
  command->footer(
      "docs/reference/ has them all.\n"
      "example: tritonforge schema verdict\n"
      "         tritonforge schema engine > engine.json");
  command->callback([name] { fmt::print("{}\n", schema_of(*name).dump(2)); });
}

}  // namespace tritonforge::cli
