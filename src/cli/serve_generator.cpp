#include <cstdlib>
#include <memory>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "rollout/generator_process.h"

namespace tritonforge::cli {
namespace {

struct GeneratorFlags {
  net::ServerOptions http{.port = 8890, .worker_threads = 2};
  rollout::GeneratorOptions generator;
  net::PeerKey peer_key;
  std::string tokenizer;
  double grace_s = 30;

  template <typename V>
  void describe(V& v) {
    v.part(http);
    v.part(peer_key);
    v.part(generator);
    v("tokenizer", tokenizer, "folder with tokenizer.json, or a GGUF file; without it only chat servers can be asked");
    v("grace_s", grace_s, at_least(0), "seconds to wait at SIGTERM for the turns under way");
  }
};

net::Metrics figures() {
  return net::Metrics("generator", {{"running_trajectories", "trajectories under way"},
                                    {"generating", "turns that wait for the engine"},
                                    {"evaluating", "turns that wait for the evaluator"},
                                    {"turns_total", "turns that ended since the start"},
                                    {"failed_turns_total", "of those, the ones that engine or evaluator failed"},
                                    {"sampled_tokens_total", "tokens sampled since the start"},
                                    {"delivered_total", "trajectories that the buffer has taken"}});
}

int serve_generator(GeneratorFlags flags) {
  log::start("generator");
  SignalWaiter signals;
  rollout::GeneratorOptions options = flags.generator;
  flags.http.read_secrets();
  options.peers.api_key = flags.peer_key.read(flags.http.api_key);
  if (const char* key = std::getenv("OPENAI_API_KEY")) options.peers.chat_api_key = key;  // never on a command line
  rollout::GeneratorProcess generator(
      options, flags.tokenizer.empty() ? rollout::no_chat_codec() : tokenizer::load_chat_codec(flags.tokenizer));
  net::Metrics metrics = figures();
  net::HttpServer server(flags.http);
  server.route("GET", "/health", [&](const net::Request&) {
    const auto state = generator.state();
    // Yellow, not red: it holds trajectories that the buffer wants as soon as it is there again.
    return net::health_reply(
        state.buffer_error.empty() ? net::Colour::kGreen : net::Colour::kYellow, "generator",
        state.buffer_error.empty()
            ? fmt::format("{} trajectories running, {} delivered", state.activity.running, state.delivered)
            : fmt::format("{} trajectories running; {}", state.activity.running, state.buffer_error));
  });
  server.route("GET", "/metrics", [&](const net::Request&) {
    const auto state = generator.state();
    metrics.set("running_trajectories", static_cast<double>(state.activity.running));
    metrics.set("generating", static_cast<double>(state.activity.generating));
    metrics.set("evaluating", static_cast<double>(state.activity.evaluating));
    metrics.set("turns_total", static_cast<double>(state.activity.turns));
    metrics.set("failed_turns_total", static_cast<double>(state.activity.failed_turns));
    metrics.set("sampled_tokens_total", static_cast<double>(state.activity.sampled_tokens));
    metrics.set("delivered_total", static_cast<double>(state.delivered));
    return metrics.reply();
  });
  server.start();
  log::info("listens on {}, generates as {} for {}", server.url(), generator.name(), options.buffer);
  signals.block();
  log::info("stops: waits at most {:.0f} s for the turns under way", flags.grace_s);
  const bool idle = generator.stop(flags.grace_s);
  server.stop();
  if (idle) return 0;
  log::warn("turns were still under way; their samples are made again by others");
  std::_Exit(0);  // threads still wait for a peer's reply
}

}  // namespace

void add_serve_generator_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("generator", "generates trajectories for a buffer, on this or another machine");
  auto flags = std::make_shared<GeneratorFlags>();
  add_flags(*command, *flags);
  command->footer(
      "example: tritonforge serve generator --buffer http://127.0.0.1:8889 --router http://127.0.0.1:30000 "
      "--evaluator http://127.0.0.1:18188 --tokenizer models/tiny");
  command->callback([flags] {
    if (const int code = serve_generator(*flags); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace tritonforge::cli
