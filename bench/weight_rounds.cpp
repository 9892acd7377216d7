// libs: tf_weights
// The same weights to several machines at once, to each over TCP and to all in rounds (bench/weight_rounds.py has
// both in turns, between network namespaces).
//   weight_rounds serve HOST MIB  publishes weights of about so many MiB as what it prints, until its standard input
//   ends weight_rounds take MIB WAY    for each line of the standard input, which is such: takes them by that way (tcp
//   |
//                                 group), compares checksums, and prints the seconds
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "model/weights.h"
#include "net/bulk.h"
#include "weights/source.h"
#include "weights/transport.h"

using namespace tritonforge;

namespace {

constexpr const char* kKey = "bench";

model::ModelConfig config_of(int64_t mib) {
  model::ModelConfig config;
  config.hidden_size = 1024;
  config.intermediate_size = 1024;
  config.num_layers = 1;
  config.num_heads = 8;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.vocab_size = (mib << 20) / 2 / config.hidden_size;
  config.max_position = 64;
  config.tie_embeddings = true;
  return config;
}

int serve(const std::string& host, int64_t mib) {
  model::Model model(config_of(mib), at::kBFloat16, at::kCPU);
  model.init_random(1);
  const TemporaryFolder folder("weight-rounds", "/dev/shm");
  const fs::path file = folder.path() / "weights";
  PublishedWeights published{.path = {}, .version = 1, .checksums = {}, .device = {}};
  published.checksums = model::save_safetensors(model.named_parameters(), file, {});
  net::BulkServer server({.host = host, .key = kKey});
  server.offer(1, file);
  published.tcp = StreamedWeights{host, server.port()};
  weights::Desk desk({.host = host, .key = kKey});
  weights::Source source({.desk = {host, desk.port(), kKey}}, model.config());
  source.take(model, 1);
  desk.offer(1);
  published.group = GroupedWeights{
      .host = host, .port = desk.port(), .dtype = "bfloat16", .plan = weights::plan_checksum(model.config())};
  fmt::print("{}\n", to_json(published).dump());
  std::fflush(stdout);
  while (std::cin.get() != EOF) {}
  return 0;
}

int take(int64_t mib, const std::string& way) {
  model::Model model(config_of(mib), at::kBFloat16, at::kCPU);
  model.init_random(2);
  const auto transports = weights::make_transports(kKey);
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const PublishedWeights published = published_weights_from_json(parse_json(line, "standard input"));
    const auto start = Clock::now();
    for (const auto& transport : transports) {
      if (transport->name() == way) transport->stage(model, published, Deadline::after(600));
    }
    fmt::print("{:.3f}\n", seconds_since(start));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    log::start("weight_rounds");
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "serve" && argc == 4) return serve(argv[2], std::stoll(argv[3]));
    if (what == "take" && argc == 4) return take(std::stoll(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  fmt::print(stderr, "usage: weight_rounds serve HOST MIB | take MIB tcp|group\n");
  return 2;
}
