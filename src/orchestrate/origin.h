#pragma once
// RUN/origin.json: how to make a run again. Program (version, commit), packages, machine, seed, and the digests of
// every model, data set and problem that the recipe names; recipe.yaml beside it is the whole recipe.
#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "base/build.h"
#include "base/json.h"
#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {

// The recipe's keys that name files or folders which this run reads, and what each is resolved to.
std::map<std::string, fs::path> inputs_of(const RecipeConfig& config);
// {"path", "digest", "files", "bytes"}: of a folder over the names and contents of all its files. An empty object where
// `stop` was requested meanwhile.
Json digest_of(const fs::path& path, const std::stop_token& stop = {});

// Writes the file beside the run, from a thread of its own (a model's digest takes seconds). A run that goes on keeps
// what is there, and adds when and by which program it was started again.
class Origin {
 public:
  Origin(const RecipeConfig& config, const fs::path& run);
  // A run that ends sooner has no digests of what was not read yet.
  ~Origin() = default;

 private:
  std::jthread thread_;
};

// Of a run that goes on: data and problems that the config's stages read are what they were when it began. Throws
// kConflict (key, path, digests). A model is not read again for it: what it was is in the checkpoints.
void check_inputs(const RecipeConfig& config, const fs::path& run);

// The recipe of the run in `folder`, for one like it; `overrides` as of load_recipe. Throws kConflict where an input is
// not what it was (its path, was and is), and warns where the program or a package is another.
RecipeConfig recipe_like(const fs::path& folder, const std::vector<std::string>& overrides);

}  // namespace tritonforge::orchestrate
