#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/log.h"
#include "base/process.h"
#include "cli/can_listen.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "contract/weights.h"
#include "engine/server.h"

namespace tritonforge::cli {
namespace {

struct EngineFlags {
  engine::EngineOptions engine;
  net::ServerOptions http{.port = 30001};

  template <typename V>
  void describe(V& v) {
    v.part(engine);
    v.part(http);
  }
};

void serve_engine(EngineFlags flags) {
  SignalWaiter signals;
  std::optional<EndsAtSignal> starting(std::in_place, "engine");
  log::start(fmt::format("engine:{}", flags.http.port));
  flags.http.read_secrets();
  check_can_listen(flags.http);
  engine::EngineOptions options = flags.engine;
  if (const char* key = std::getenv(kWeightsKey)) options.weights_key = key;
  engine::Engine engine(options);
  engine::EngineServer server(engine, flags.http);
  server.start();
  starting.reset();
  const engine::EngineInfo& info = engine.info();
  log::info("serving {} ({} M parameters, {}, {}) on {}: context {}, KV cache {} tokens", info.model_path,
            info.parameters / 1'000'000, info.dtype, info.device, server.url(), info.max_context, info.kv_cache_tokens);
  signals.block();
  log::info("stopping");
  server.stop();
}

}  // namespace

void add_serve_engine_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("engine", "samples tokens from a model: SGLang's and OpenAI's HTTP APIs");
  auto flags = std::make_shared<EngineFlags>();
  add_flags(*command, *flags);
  command->footer("example: tritonforge serve engine --model ~/models/Qwen3-0.6B --port 30001 --device cuda:0");
  command->callback([flags] { serve_engine(*flags); });
}

}  // namespace tritonforge::cli
