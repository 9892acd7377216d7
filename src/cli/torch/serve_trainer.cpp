#include <optional>

#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/can_listen.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "contract/weights.h"
#include "train/ranks.h"
#include "train/server.h"

namespace tritonforge::cli {
namespace {

constexpr const char* kRendezvousKey = "TRITONFORGE_RENDEZVOUS_KEY";

struct TrainerFlags {
  std::string config;
  std::vector<std::string> overrides;
  net::ServerOptions http{.port = 29400, .worker_threads = 1};
  train::ServiceOptions service;
  net::PeerKey peers;

  template <typename V>
  void describe(V& v) {
    v("config", config, required(), "YAML file of the training config");
    v("overrides", overrides, spelled("set"), "path=value over the file, as in --set lr=1e-6");
    v.part(http);
    v.part(service);
    v.part(peers);
  }
};

void serve_trainer(TrainerFlags flags) {
  log::start("trainer");
  SignalWaiter signals;
  YAML::Node yaml = load_yaml_file(flags.config);
  for (const std::string& assignment : flags.overrides) apply_override(yaml, assignment);
  flags.http.read_secrets();
  train::ServiceOptions options = flags.service;
  options.peer_api_key = flags.peers.read(flags.http.api_key);
  options.config = load_config<train::TrainConfig>(yaml, flags.config);
  log::info("config:\n{}", dump_config(options.config));
  if (options.config.device == "cpu") train::keep_freed_memory();
  if (const char* key = std::getenv(kRendezvousKey)) options.ranks.api_key = key;
  if (const char* key = std::getenv(kWeightsKey)) options.weights_key = key;
  if (options.ranks.rank > 0)  // stopped by rank 0
    return train::follow_rank_0(options.config, options.ranks, options.weights_key);
  std::optional<EndsAtSignal> starting(std::in_place, "trainer");
  check_can_listen(flags.http);
  train::TrainerService service(options);
  train::TrainerServer server(service, flags.http);
  server.start();
  starting.reset();
  log::info("listening on {}", server.url());
  signals.block();
  log::info("stopping");
  server.stop();
  service.shut_down();
}

}  // namespace

void add_serve_trainer_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("trainer", "trains a model step by step (SFT and RL) and publishes its weights");
  auto flags = std::make_shared<TrainerFlags>();
  add_flags(*command, *flags);
  command->footer("example: tritonforge serve trainer --config train.yaml --port 29400 --resume");
  command->callback([flags] { serve_trainer(*flags); });
}

}  // namespace tritonforge::cli
