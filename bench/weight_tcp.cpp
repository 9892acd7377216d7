// libs: tf_weights
// A file of random bytes from machine to machine by net/bulk.h, as weights travel, to be run beside iperf3 between the
// same two (bench/weight_tcp.sh has both in turns).
//   weight_tcp serve HOST PORT MIB          serves it until its standard input ends
//   weight_tcp fetch HOST PORT STREAMS MIB  fetches it, and prints Gbit/s and the CPU seconds of this process
// Under TLS where TRITONFORGE_WEIGHTS_TLS_CERT, _KEY and _CA name files.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/rng.h"
#include "net/bulk.h"
#include "weights/tcp.h"

using namespace tritonforge;

namespace {

constexpr const char* kKey = "bench";

int serve(const std::string& host, int port, uint64_t mib) {
  const TemporaryFolder folder("weight-tcp", "/dev/shm");
  const fs::path file = folder.path() / "weights";
  {
    Rng random(1);
    std::string part(1 << 20, '\0');
    std::ofstream out(file, std::ios::binary);
    for (uint64_t i = 0; i < mib; ++i) {
      for (size_t at = 0; at < part.size(); at += 8) {
        const uint64_t word = random.next();
        std::memcpy(part.data() + at, &word, 8);
      }
      out << part;
    }
  }
  net::BulkServer server(
      {.host = host, .port = port, .key = kKey, .tls = net::named_bulk_tls().value_or(net::TlsFiles{})});
  server.offer(1, file);
  fmt::print("ready\n");
  std::fflush(stdout);
  while (std::cin.get() != EOF) {}
  return 0;
}

int fetch(const std::string& host, int port, int streams, uint64_t mib) {
  std::optional<weights::FetchedFile> file;
  const auto start = Clock::now();
  net::bulk_fetch(
      {.host = host, .port = port, .key = kKey, .version = 1, .streams = streams, .tls = net::named_bulk_tls()},
      [&](uint64_t total) {
        TF_CHECK(total == mib << 20, "{} bytes are served", total);
        return file.emplace(total).bytes();
      },
      Deadline::after(600));
  const double seconds = seconds_since(start);
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const double cpu = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  fmt::print("{:.2f} {:.2f}\n", static_cast<double>(mib << 23) / seconds / 1e9, cpu);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "serve" && argc == 5) return serve(argv[2], std::stoi(argv[3]), std::stoull(argv[4]));
    if (what == "fetch" && argc == 6)
      return fetch(argv[2], std::stoi(argv[3]), std::stoi(argv[4]), std::stoull(argv[5]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  fmt::print(stderr, "usage: weight_tcp serve HOST PORT MIB | fetch HOST PORT STREAMS MIB\n");
  return 2;
}
