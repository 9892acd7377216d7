#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "train/server.h"

namespace tritonforge::cli {
namespace {

struct Flags {
  std::string config, buffer_api_key;
  std::vector<std::string> overrides;
  net::ServerOptions http{.port = 29400, .worker_threads = 1};
  bool resume = false, share_device = false;
};

void serve_trainer(const Flags& flags) {
  log::start("trainer");
  SignalWaiter signals;
  YAML::Node yaml = load_yaml_file(flags.config);
  for (const std::string& assignment : flags.overrides) apply_override(yaml, assignment);
  train::ServiceOptions options;
  options.config = load_config<train::TrainConfig>(yaml, flags.config);
  options.resume = flags.resume;
  options.share_device = flags.share_device;
  options.buffer_api_key = flags.buffer_api_key;
  log::info("config:\n{}", dump_config(options.config));
  if (options.config.device == "cpu") train::keep_freed_memory();
  train::TrainerService service(options);
  train::TrainerServer server(service, flags.http);
  server.start();
  log::info("listening on {}", server.url());
  signals.block();
  log::info("stopping");
  server.stop();
  service.shut_down();
}

}  // namespace

void add_serve_trainer_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("trainer", "trains a model step by step (SFT and RL) and publishes its weights");
  auto flags = std::make_shared<Flags>();
  command->add_option("--config", flags->config, "YAML file of the training config")->required();
  command->add_option("--set", flags->overrides, "path=value over the file, as in --set lr=1e-6");
  command->add_option("--host", flags->http.host, "address to listen on")->capture_default_str();
  command->add_option("--port", flags->http.port, "port to listen on; 0 = any free one")->capture_default_str();
  command->add_option("--api-key", flags->http.api_key, "required of clients; needed for any host but loopback");
  command->add_option("--buffer-api-key", flags->buffer_api_key, "sent to the rollout buffer");
  command->add_flag("--resume", flags->resume, "go on from the newest checkpoint of the config's folder");
  command->add_flag("--share-device", flags->share_device,
                    "hold the device's lock while a step computes, so that an evaluator can measure alone");
  command->footer("example: tritonforge serve trainer --config train.yaml --port 29400 --resume");
  command->callback([flags] { serve_trainer(*flags); });
}

}  // namespace tritonforge::cli
