#include "orchestrate/origin.h"

#include <algorithm>
#include <cstdlib>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/nearest.h"
#include "base/process.h"

namespace tritonforge::orchestrate {
namespace {

constexpr const char* kFile = "origin.json";

// Versions by name, without importing a package.
Json package_versions(const std::string& python) {
  constexpr const char* kScript =
      "import importlib.metadata as m, json, platform\n"
      "found = {'python': platform.python_version()}\n"
      "for name in ('torch', 'triton', 'numpy', 'pyarrow', 'huggingface-hub'):\n"
      "    try: found[name] = m.version(name)\n"
      "    except m.PackageNotFoundError: pass\n"
      "print(json.dumps(found))";
  try {
    const Json found = parse_json_or_discard(run_command({python, "-c", kScript}, 60).output);
    return found.is_object() ? found : Json::object();
  } catch (const Error& error) {
    log::warn("{}: no versions of packages: {}", kFile, error.what());
    return Json::object();
  }
}

std::string python_of(const RecipeConfig& config) {
  if (!config.evaluator.python.empty()) return config.evaluator.python;
  const char* set = std::getenv("TRITONFORGE_PYTHON");
  return set != nullptr && *set != '\0' ? set : TF_PYTHON;
}

Json program() {
  const BuildInfo& build = build_info();
  return {{"version", build.version}, {"commit", build.commit}, {"type", build.type}};
}

void write_origin(const RecipeConfig& config, const fs::path& run, const std::stop_token& stop) {
  const fs::path file = run / kFile;
  Json origin = Json::object();
  if (fs::exists(file)) origin = parse_json(read_file(file), file.string());
  const Json start = {{"time", unix_seconds()}, {"program", program()}};
  origin["starts"].push_back(start);
  if (!origin.contains("inputs")) {
    origin["program"] = program();
    origin["seed"] = config.seed;
    origin["machine"] = machine_description();
    origin["packages"] = package_versions(python_of(config));
    Json inputs = Json::object();
    for (const auto& [key, path] : inputs_of(config)) {
      Json digest = digest_of(path, stop);
      if (stop.stop_requested()) break;
      inputs[key] = std::move(digest);
    }
    if (!stop.stop_requested()) origin["inputs"] = std::move(inputs);
  }
  write_file_atomic(file, origin.dump(1) + "\n");
}

}  // namespace

std::map<std::string, fs::path> inputs_of(const RecipeConfig& config) {
  std::map<std::string, fs::path> found;
  const auto add = [&](const char* key, const std::string& path, bool used) {
    if (used && !path.empty() && fs::exists(resolve_path(path))) found[key] = resolve_path(path);
  };
  const bool sft = config.has_stage("sft");
  add("model.path", config.model.path, true);
  add("data.pairs", config.data.pairs, config.has_stage("data") || (sft && config.data.from_pairs()));
  add("data.text", config.data.text, sft);
  add("data.conversations", config.data.conversations, sft);
  add("rl.problems", config.rl.problems, config.has_stage("rl"));
  add("rl.validation.problems", config.rl.validation.problems, config.has_stage("rl"));
  add("bench.problems", config.bench.problems, config.has_stage("bench"));
  return found;
}

Json digest_of(const fs::path& path, const std::stop_token& stop) {
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::recursive_directory_iterator(path, fs::directory_options::follow_directory_symlink))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  std::string all;
  uint64_t bytes = 0;
  for (const fs::path& file : files) {
    if (stop.stop_requested()) return Json::object();
    const std::string name = file == path ? "" : fs::relative(file, path).string();
    all += fmt::format("{} {}\n", checksum_of_file(file), name);
    bytes += fs::file_size(file);
  }
  return {{"path", path.string()}, {"digest", checksum(all)}, {"files", files.size()}, {"bytes", bytes}};
}

Origin::Origin(const RecipeConfig& config, const fs::path& run)
    : thread_([config, run](const std::stop_token& stop) {
        try {
          write_origin(config, run, stop);
        } catch (const std::exception& error) {  // no reason to end a run
          log::warn("{}: {}", kFile, error.what());
        }
      }) {}

namespace {

// Where `path` is not what origin.json says of this input: "digest IS, then WAS".
std::optional<std::string> changed_since(const Json& input, const fs::path& path, const std::string& file) {
  const auto was = require<std::string>(input, "digest", file);
  const auto is = require<std::string>(digest_of(path), "digest", path.string());
  return is == was ? std::nullopt : std::optional(fmt::format("digest {}, then {}", is, was));
}

}  // namespace

void check_inputs(const RecipeConfig& config, const fs::path& run) {
  const fs::path file = run / kFile;
  if (!fs::exists(file)) return;
  const Json origin = parse_json(read_file(file), file.string());
  const Json inputs = optional_field<Json>(origin, "inputs", Json::object(), file.string());
  for (const auto& [key, path] : inputs_of(config)) {
    if (key == "model.path" || !inputs.contains(key)) continue;
    if (const auto changed = changed_since(inputs[key], path, file.string()))
      fail(ErrorKind::kConflict,
           "{} ({}) is not what this run began with: {}; put it back, or begin another run (--output)", key,
           path.string(), *changed);
  }
}

RecipeConfig recipe_like(const fs::path& folder, const std::vector<std::string>& overrides) {
  const fs::path recipe = folder / "recipe.yaml", file = folder / kFile;
  if (!fs::exists(recipe))
    fail(ErrorKind::kNotFound, "--like: there is no run in {}: it has no recipe.yaml{}", folder.string(),
         nearest_path_hint(folder));
  YAML::Node node = load_yaml_file(recipe.string());
  for (const std::string& assignment : overrides) apply_override(node, assignment);
  RecipeConfig config = load_config<RecipeConfig>(node, recipe.string());
  if (!fs::exists(file)) {
    log::warn("{} has no {}: whether models and data are the same cannot be said", folder.string(), kFile);
    return config;
  }
  const Json origin = parse_json(read_file(file), file.string());
  const auto before = load_config<RecipeConfig>(load_yaml_file(recipe.string()), recipe.string());
  const auto old_paths = inputs_of(before), paths = inputs_of(config);
  const Json inputs = optional_field<Json>(origin, "inputs", Json::object(), file.string());
  for (const auto& [key, was] : inputs.items()) {
    const auto old_path = old_paths.find(key), path = paths.find(key);
    const bool changed = old_path != old_paths.end() && path != paths.end() && old_path->second != path->second;
    if (changed) continue;  // by --set: another input is what was asked for
    const auto place = require<std::string>(was, "path", file.string());
    if (path == paths.end()) {
      if (old_path == old_paths.end() && !fs::exists(place))
        fail(ErrorKind::kConflict, "--like: {} was {}, which is not there any more", key, place);
      continue;  // a stage that --set left out
    }
    if (const auto digests = changed_since(was, path->second, file.string()))
      fail(ErrorKind::kConflict, "--like: {} ({}) is not what it was: {}; --set {}=PATH names another", key,
           path->second.string(), *digests, key);
  }
  const Json now = {{"program", program()}, {"packages", package_versions(python_of(config))}};
  for (const char* part : {"program", "packages"}) {
    const Json then = optional_field<Json>(origin, part, Json::object(), file.string());
    for (const auto& [name, was] : then.items()) {
      const auto is = now[part].find(name);
      if (is != now[part].end() && *is != was)
        log::warn("--like: {} {} is {}, that run had {}", part, name, is->dump(), was.dump());
    }
  }
  return config;
}

}  // namespace tritonforge::orchestrate
