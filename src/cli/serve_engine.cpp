#include <fmt/format.h>

#include <cstdio>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "engine/server.h"

namespace tritonforge::cli {

void add_engine_options(CLI::App& command, engine::EngineOptions& options) {
  command
      .add_option("--model", options.model,
                  "Hugging Face folder (config.json, tokenizer.json, safetensors) or GGUF file")
      ->required();
  command.add_option("--device", options.device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", options.dtype, "auto (float32 on the CPU, bfloat16 on a GPU), float32 or bfloat16")
      ->capture_default_str();
  command.add_option("--max-running", options.max_running, "sequences in one step")->capture_default_str();
  command.add_option("--max-queue", options.max_queue, "sequences that may wait beyond those; more are answered 429")
      ->capture_default_str();
  command
      .add_option("--max-step-tokens", options.max_step_tokens,
                  "tokens in one step; 0 = 1024 on the CPU, 8192 on a GPU")
      ->capture_default_str();
  command
      .add_option("--kv-cache-tokens", options.kv_cache_tokens, "tokens in the KV cache; 0 = sized from free memory")
      ->capture_default_str();
  command.add_option("--max-context", options.max_context, "prompt and answer together; 0 = min(the model's, 32768)")
      ->capture_default_str();
  command.add_option("--threads", options.threads, "CPU threads of a step; 0 = all cores")->capture_default_str();
  command.add_flag("--no-prefix-reuse{false}", options.reuse_prefixes, "computes every prompt from its start");
}

namespace {

struct ServeEngineOptions {
  engine::EngineOptions engine;
  net::ServerOptions server;
};

void serve_engine(const ServeEngineOptions& options) {
  SignalWaiter signals;
  log::start(fmt::format("engine:{}", options.server.port));
  engine::Engine engine(options.engine);
  engine::EngineServer server(engine, options.server);
  server.start();
  const engine::EngineInfo& info = engine.info();
  log::info("serving {} ({} M parameters, {}, {}) on {}: context {}, KV cache {} tokens", info.model_path,
            info.parameters / 1'000'000, info.dtype, info.device, server.url(), info.max_context, info.kv_cache_tokens);
  signals.block();
  log::info("stopping");
  server.stop();
}

}  // namespace

void add_serve_engine_command(CLI::App& serve) {
  auto options = std::make_shared<ServeEngineOptions>();
  options->server.port = 30001;
  auto* command = serve.add_subcommand("engine", "samples tokens from a model: SGLang's and OpenAI's HTTP APIs");
  add_engine_options(*command, options->engine);
  command->add_option("--host", options->server.host, "address to bind; other than loopback needs --api-key")
      ->capture_default_str();
  command->add_option("--port", options->server.port, "0 = any free port")->capture_default_str();
  command->add_option("--api-key", options->server.api_key, "required of every request as a bearer token");
  command->add_flag("--share-device", options->engine.share_device,
                    "lets an evaluator measure alone on the device between two steps");
  command->footer("example: tritonforge serve engine --model ~/models/Qwen3-0.6B --port 30001 --device cuda:0");
  command->callback([options] { serve_engine(*options); });
}

}  // namespace tritonforge::cli
