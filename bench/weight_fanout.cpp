// libs: tf_orchestrate
// New weights to many engines, as a run's orchestrator (orchestrate/peers.h) and its trainer's host (net/bulk.h) bring
// them there, with mock engines (mock_engine) in their place.
//   weight_fanout MIB TENSORS WATCHED < URLS
// The first line of the standard input are the engines' addresses; the last WATCHED of them are roles of a supervisor,
// so that they may be killed. Each further line is one update: of checksums alone where MIB is 0, else of a file of so
// many MiB that every engine fetches. Prints for each one line of JSON: when it began and was over (on the clock of
// CLOCK_MONOTONIC), how many have it, and CPU, memory, threads and descriptors of this process, which has both ends.
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "base/log.h"
#include "base/process.h"
#include "net/bulk.h"
#include "orchestrate/peers.h"

using namespace tritonforge;

namespace {

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int64_t entries(const char* folder) { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); }

// Names as long as a model's are.
TensorChecksums checksums(int64_t tensors, int64_t version) {
  TensorChecksums sums;
  for (int64_t i = 0; i < tensors; ++i)
    sums[fmt::format("model.layers.{}.self_attn.q_proj.weight", i)] = fmt::format("{:016x}", i + version);
  return sums;
}

// Engines that exist already: what the supervisor starts in the place of one does nothing.
void watch(orchestrate::Supervisor& supervisor, const std::vector<orchestrate::Role>& engines, size_t first) {
  std::vector<orchestrate::RoleSpec> specs;
  for (size_t i = first; i < engines.size(); ++i)
    specs.push_back({.name = engines[i].name(), .argv = {"sleep", "3600"}, .url = engines[i].url()});
  supervisor.start(std::move(specs));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: weight_fanout MIB TENSORS WATCHED < URLS\n");
    return 2;
  }
  const int64_t mib = std::atoll(argv[1]), tensors = std::atoll(argv[2]), watched = std::atoll(argv[3]);
  log::start("fanout");
  raise_file_limit();  // as tritonforge does
  const TemporaryFolder folder("weight-fanout", "/dev/shm");
  const fs::path file = folder.path() / "weights";
  {
    std::ofstream out(file, std::ios::binary);
    const std::string part(1 << 20, 'w');
    for (int64_t i = 0; i < mib; ++i) out << part;
  }
  net::BulkServer server({.key = "bench"});
  orchestrate::Supervisor supervisor(folder.path() / "logs");
  std::vector<orchestrate::Role> roles;
  std::string line, url;
  std::getline(std::cin, line);
  for (std::istringstream urls(line); urls >> url;)
    roles.emplace_back(supervisor, fmt::format("engine-{}", roles.size()), url);
  watch(supervisor, roles, roles.size() - static_cast<size_t>(watched));
  {
    orchestrate::Engines engines(roles.at(0), roles,
                                 {});  // an engine takes the router's place: it hears of the barrier
    for (int64_t version = 1; std::getline(std::cin, line); ++version) {
      PublishedWeights weights{file, version, checksums(tensors, version)};
      if (mib > 0) {
        server.offer(static_cast<uint64_t>(version), file);
        weights.tcp = StreamedWeights{"127.0.0.1", server.port()};
      }
      const double cpu = cpu_seconds(), begun = now();
      const size_t have = engines.install(weights).size();
      rusage used{};
      ::getrusage(RUSAGE_SELF, &used);
      const Json figures = {{"begun", begun},
                            {"over", now()},
                            {"have", have},
                            {"cpu_s", cpu_seconds() - cpu},
                            {"mib", used.ru_maxrss / 1024},
                            {"threads", entries("/proc/self/task")},
                            {"files", entries("/proc/self/fd")}};
      fmt::print("{}\n", figures.dump());
      std::fflush(stdout);
    }
    supervisor.stop_all();  // nobody waits for the killed any more
  }
  return 0;
}
