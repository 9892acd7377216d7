#include <fmt/format.h>

#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/url.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "net/http.h"
#include "orchestrate/recipe.h"

namespace tritonforge::cli {
namespace {

// One word of a shell's command line: Ray runs a job's as such.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

struct Submission {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string ray_address, ray_runtime_env;
  fs::path output;
  bool resume = false, no_wait = false;
  void describe(OptionList& v) {
    v("overrides", overrides, spelled("set"), "overrides a value by its path: rl.steps=30");
    v("ray_address", ray_address, required(), "where the cluster takes jobs: http://HOST:8265");
    v("ray_runtime_env", ray_runtime_env, "Ray's runtime_env of the job, as JSON: {\"env_vars\": {...}}");
    v("output", output, "the run's folder (default runs/NAME-seedN)");
    v("resume", resume, "goes on with the run in the folder");
    v("no_wait", no_wait, "prints the job's id and does not follow it");
  }
};

// The command that the job is, on the cluster's head: paths as they are here, on a file system that all nodes share.
std::string entrypoint(const Submission& given, const orchestrate::RecipeConfig& config) {
  const fs::path folder = given.output.empty() ? fs::path("runs") / fmt::format("{}-seed{}", config.name, config.seed)
                                               : given.output;
  std::vector<std::string> words = {
      own_executable().string(),    "run", fs::absolute(given.recipe).string(), "--launcher", "ray", "--output",
      fs::absolute(folder).string()};
  for (const std::string& value : given.overrides) words.insert(words.end(), {"--set", value});
  if (given.resume) words.emplace_back("--resume");
  std::string text = "exec";
  for (const std::string& word : words) text += " " + quoted(word);
  return text;
}

Json runtime_env(const std::string& text) {
  Json env = text.empty() ? Json::object() : parse_json_or_discard(text);
  if (!env.is_object()) fail(ErrorKind::kUsage, "--ray-runtime-env is no JSON object: {}", text);
  // What a recipe's relative paths begin at.
  const char* root = std::getenv("TRITONFORGE_ROOT");
  env["env_vars"].emplace("TRITONFORGE_ROOT", root && *root ? root : fs::current_path().string());
  return env;
}

// Prints what the job says until it ends, and what became of it.
void follow(net::HttpClient& ray, const std::string& job) {
  size_t printed = 0;
  while (true) {
    const Json state = ray.get_json(job).value();
    const std::string said = ray.get_json(job + "/logs").value().value("logs", "");
    if (said.size() > printed) {
      fmt::print("{}", said.substr(printed));
      std::fflush(stdout);
      printed = said.size();
    }
    const std::string status = state.value("status", "");
    if (status == "SUCCEEDED") return;
    if (status == "FAILED" || status == "STOPPED") {
      // Behind its first clause are the end of the log, which is printed already.
      const Json message = state.value("message", Json());
      const std::string text = message.is_string() ? message.get<std::string>() : "Ray says no more";
      fail(ErrorKind::kUnavailable, "the job {}: {}", status == "FAILED" ? "failed" : "was stopped",
           text.substr(0, text.find_first_of(",\n")));
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace

void add_submit_command(CLI::App& app) {
  auto given = std::make_shared<Submission>();
  auto* command = app.add_subcommand("submit", "sends a run into a Ray cluster, as a job of its own, and follows it");
  command->add_option("recipe", given->recipe, "recipe in YAML, at a path that the cluster's nodes see, too")
      ->required();
  add_flags(*command, *given);
  command->footer("example: tritonforge submit recipes/cpu-cluster.yaml --ray-address http://10.0.0.1:8265");
  command->callback([given] {
    const orchestrate::RecipeConfig config = orchestrate::load_recipe(given->recipe, given->overrides);
    if (!given->ray_address.starts_with("http://") && !given->ray_address.starts_with("https://"))
      fail(ErrorKind::kUsage, "--ray-address {}: jobs go to http://HOST:8265, the cluster's dashboard",
           given->ray_address);
    net::ClientOptions options;
    if (const char* key = std::getenv("RAY_AUTH_TOKEN")) options.api_key = key;  // never on a command line
    net::HttpClient ray(options);
    const std::string jobs = base_url(given->ray_address) + "/api/jobs/";
    const Json body = {{"entrypoint", entrypoint(*given, config)},
                       {"runtime_env", runtime_env(given->ray_runtime_env)}};
    const std::string id = ray.post_json(jobs, body).value().at("submission_id");
    fmt::print("job {}; `ray job stop {} --address {}` stops it, and --resume goes on with it\n", id, id,
               given->ray_address);
    std::fflush(stdout);
    if (!given->no_wait) follow(ray, jobs + id);
  });
}

}  // namespace tritonforge::cli
