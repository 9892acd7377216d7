#include <cstdlib>

#include <fmt/format.h>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "rollout/server.h"

namespace tritonforge::cli {
namespace {

struct BufferFlags {
  net::ServerOptions http{.port = 8889, .worker_threads = 16};
  rollout::ServiceOptions service;
  net::PeerKey peer_key;
  std::string tokenizer;
  double grace_s = 30;

  template <typename V>
  void describe(V& v) {
    v.part(http);
    v.part(peer_key);
    v.part(service);
    v("tokenizer", tokenizer, "folder with tokenizer.json, or a GGUF file; without it only chat servers can be asked");
    v("grace_s", grace_s, at_least(0), "seconds to wait at SIGTERM for the turns under way");
  }
};

int serve_buffer(BufferFlags flags) {
  log::start("buffer");
  SignalWaiter signals;
  rollout::ServiceOptions options = flags.service;
  flags.http.read_secrets();
  options.peers.api_key = flags.peer_key.read(flags.http.api_key);
  if (const char* key = std::getenv("OPENAI_API_KEY")) options.peers.chat_api_key = key;  // never on a command line
  rollout::RolloutService service(
      options, flags.tokenizer.empty() ? rollout::no_chat_codec() : tokenizer::load_chat_codec(flags.tokenizer));
  rollout::BufferServer server(service, flags.http);
  server.start();
  log::info("listens on {}, database {}", server.url(), options.database.string());
  signals.block();
  log::info("stops: waits at most {:.0f} s for the turns under way", flags.grace_s);
  const bool idle = service.stop(flags.grace_s);
  server.stop();
  if (idle) return 0;
  // Threads still wait for a peer's reply. All that counts is in the database; the rest is made again after a restart.
  log::warn("turns were still under way; their samples are made again after a restart");
  std::_Exit(0);
}

}  // namespace

void add_serve_buffer_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("buffer", "rollout generators and the durable buffer of their trajectories");
  auto flags = std::make_shared<BufferFlags>();
  add_flags(*command, *flags);
  command->footer(
      "example: tritonforge serve buffer --db run/buffer.sqlite --router http://127.0.0.1:30000 "
      "--evaluator http://127.0.0.1:18188 --tokenizer models/tiny");
  command->callback([flags] {
    if (const int code = serve_buffer(*flags); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace tritonforge::cli
