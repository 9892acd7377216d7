#include <csignal>
#include <cstdlib>

#include <fmt/format.h>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "rollout/server.h"

namespace tritonforge::cli {
namespace {

struct Flags {
  net::ServerOptions http{.port = 8889, .worker_threads = 16};
  rollout::ServiceOptions service;
  std::string database, tokenizer;
  double grace_s = 30;
};

int serve(const Flags& flags) {
  log::start("buffer");
  // A full disk or a file-size limit is an error of one write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  SignalWaiter signals;
  rollout::ServiceOptions options = flags.service;
  options.database = flags.database;
  options.peers.api_key = flags.http.api_key;
  rollout::RolloutService service(options, rollout::load_chat_codec(flags.tokenizer));
  rollout::BufferServer server(service, flags.http);
  server.start();
  log::info("listens on {}, database {}", server.url(), flags.database);
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

void add_serve_buffer_command(CLI::App& serve_command) {
  auto* command = serve_command.add_subcommand("buffer",
                                               "rollout generators and the durable buffer of their trajectories");
  auto flags = std::make_shared<Flags>();
  command->add_option("--port", flags->http.port, "port to listen on (0: any free one)")->capture_default_str();
  command->add_option("--host", flags->http.host, "address to listen on; another than loopback needs --api-key")
      ->capture_default_str();
  command->add_option("--api-key", flags->http.api_key, "bearer key of this server, also sent to router and evaluator")
      ->envname("TRITONFORGE_API_KEY");
  command->add_option("--db", flags->database, "SQLite file; it is created, and an existing one is gone on with")
      ->required();
  command->add_option("--router", flags->service.peers.router, "URL of the router (or of one engine)")->required();
  command->add_option("--evaluator", flags->service.peers.evaluator, "URL of the evaluator")->required();
  command->add_option("--tokenizer", flags->tokenizer, "folder with tokenizer.json, or a GGUF file")->required();
  command->add_option("--concurrency", flags->service.concurrency, "trajectories under way at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--evaluations", flags->service.evaluations, "evaluations under way at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--patience", flags->service.peers.patience_s,
                   "seconds for which failures of one engine or evaluator call are borne")
      ->capture_default_str();
  command->add_option("--grace", flags->grace_s, "seconds to wait at SIGTERM for the turns under way")
      ->capture_default_str();
  command->footer(
      "example: tritonforge serve buffer --db run/buffer.sqlite --router http://127.0.0.1:30000 "
      "--evaluator http://127.0.0.1:18188 --tokenizer models/tiny");
  command->callback([flags] {
    if (const int code = serve(*flags); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace tritonforge::cli
