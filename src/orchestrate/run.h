#pragma once
// `tritonforge run` and `tritonforge bench`: plan, start, watch, and go through the stages.
#include <array>
#include <string_view>

#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {

// Who starts the roles: this process on this machine, or ssh or Ray on the hosts of the placement.
enum class LauncherKind { kLocal, kSsh, kRay };
constexpr std::array<std::string_view, 3> names_of(LauncherKind) { return {"local", "ssh", "ray"}; }

struct RunOptions {
  LauncherKind launcher = LauncherKind::kLocal;
  std::string ray_address = "auto", ray_runtime_env;
  fs::path output;
  bool resume = false;
  bool json = false;

  template <typename V>
  void describe(V& v) {
    v("launcher", launcher, "what starts the roles on the placement's hosts (docs/clusters.md)");
    v("ray_address", ray_address,
      "HOST:PORT of the cluster, for --launcher ray; auto = RAY_ADDRESS, or this machine's");
    v("ray_runtime_env", ray_runtime_env, "Ray's runtime_env of the roles, as JSON: {\"env_vars\": {...}}");
    v("output", output, "the run's folder (default runs/NAME-seedN)");
    v("resume", resume, "goes on with the run in the folder");
    v("json", json, "prints the result as one JSON document instead of the table");
  }
};

// Throws Error where the run failed; a signal stops everything, and StoppedBySignal says how to go on.
void run_recipe(const RecipeConfig& config, const RunOptions& options);

}  // namespace tritonforge::orchestrate
