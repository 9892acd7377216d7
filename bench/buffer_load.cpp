// libs: tf_rollout
// Trajectories that the buffer writes durably in a second, as its generator threads do: many threads, each with one
// trajectory at a time, groups of 8, three turns of a KernelBench answer (1,200 + 400 tokens and what follows, 5 KB of
// text a turn). Beside it, in turns: the same over HTTP, as generator processes deliver, clients and server in this one
// process; one JSON row and one transaction each, which is what the buffer did before; and the limit, the same bytes
// appended to a file with one fdatasync for as many trajectories as shared one.
//   buffer_load [threads] [trajectories] [rounds] [folder]
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/filesystem.h"
#include "bench/mock_trajectory.h"
#include "net/http.h"
#include "rollout/server.h"
#include "rollout/store.h"
#include "rollout/work.h"

using namespace tritonforge;

namespace {

constexpr int64_t kSamples = 8;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Rate {
  double per_second, cpu_share;
};

// `write(number)` for each number, from many threads.
Rate rate_of(int64_t threads, int64_t count, const std::function<void(int64_t)>& write) {
  std::atomic<int64_t> next{0};
  const auto start = Clock::now();
  const double cpu = cpu_seconds();
  {
    std::vector<std::jthread> writers;
    for (int64_t i = 0; i < threads; ++i) {
      writers.emplace_back([&] {
        for (int64_t number = next++; number < count; number = next++) write(number);
      });
    }
  }
  const double wall = seconds_since(start);
  return {static_cast<double>(count) / wall, (cpu_seconds() - cpu) / wall};
}

Trajectory named(Trajectory t, int64_t number) {
  t.group_id = fmt::format("g{}", number / kSamples);
  t.id = rollout::trajectory_id(t.group_id, number % kSamples);
  return t;
}

std::vector<GroupSpec> groups_of(int64_t count) {
  std::vector<GroupSpec> groups(static_cast<size_t>((count + kSamples - 1) / kSamples));
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].id = fmt::format("g{}", i);
    groups[i].problem_id = "p";
    groups[i].n_samples = kSamples;
  }
  return groups;
}

Rate own(const fs::path& folder, int64_t threads, int64_t count, const Trajectory& sample) {
  rollout::Store store(folder / "own.sqlite");
  store.add_groups(groups_of(count));
  const Rate rate = rate_of(threads, count, [&](int64_t n) { store.write_trajectory(named(sample, n), n % kSamples); });
  if (store.counts().trajectories != count) throw std::runtime_error("trajectories are missing");
  return rate;
}

Rate over_http(const fs::path& folder, int64_t threads, int64_t count, const Trajectory& sample) {
  rollout::ServiceOptions options{.database = folder / "http.sqlite", .concurrency = 0};
  rollout::RolloutService service(options, rollout::no_chat_codec());
  rollout::BufferServer server(service, {.port = 0, .worker_threads = 16});  // serve buffer's
  server.start();
  service.start_groups(groups_of(count));
  net::HttpClient client;
  const std::string url = server.url() + "/v2/samples";
  const Rate rate = rate_of(threads, count, [&](int64_t n) {
    const auto reply = client.request("POST", url, rollout::to_bytes(named(sample, n)),
                                      rollout::kTrajectoryContentType);
    if (reply.value().status != 200) throw std::runtime_error(reply.value().body);
  });
  if (service.store().counts().trajectories != count) throw std::runtime_error("trajectories are missing");
  service.stop(0);
  server.stop();
  return rate;
}

Rate one_row_a_transaction(const fs::path& folder, int64_t threads, int64_t count, const Trajectory& sample) {
  rollout::Database database(folder / "json.sqlite");
  database.execute("CREATE TABLE trajectories(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL)");
  std::mutex mutex;
  return rate_of(threads, count, [&](int64_t n) {
    const Trajectory t = named(sample, n);
    const std::string body = to_json(t).dump();
    std::lock_guard lock(mutex);
    rollout::Transaction transaction(database);
    database.prepare("INSERT INTO trajectories(id, body) VALUES(?, ?)").bind(1, t.id).bind(2, body).run();
    transaction.commit();
  });
}

// Whole batches of `together` trajectories, one after the other.
double disk(const fs::path& folder, int64_t count, int64_t together, size_t bytes) {
  const fs::path path = folder / "bytes";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string batch(bytes * static_cast<size_t>(together), 'b');
  const auto start = Clock::now();
  for (int64_t done = 0; done < count; done += together) {
    if (::write(file, batch.data(), batch.size()) != static_cast<ssize_t>(batch.size()) || fdatasync(file) != 0)
      throw std::runtime_error("the disk takes nothing");
  }
  const double seconds = seconds_since(start);
  close(file);
  return static_cast<double>(count) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t threads = argc > 1 ? std::atoll(argv[1]) : 64, count = argc > 2 ? std::atoll(argv[2]) : 4000;
  const int64_t rounds = argc > 3 ? std::atoll(argv[3]) : 3;
  const fs::path where = argc > 4 ? argv[4] : fs::temp_directory_path();
  const Trajectory sample = mock_trajectory();
  const rollout::TrajectoryRow row(sample);
  const size_t bytes = row.body.size() + row.record.size();
  fmt::print("{} threads, {} trajectories of {} turns; {:.1f} KB each ({:.1f} KB as one JSON text)\n", threads, count,
             kMockTurns, static_cast<double>(bytes) / 1e3, static_cast<double>(to_json(sample).dump().size()) / 1e3);
  for (int64_t round = 0; round < rounds; ++round) {
    const fs::path folder = where / fmt::format("tf-buffer-load-{}", getpid());
    fs::create_directories(folder);
    const Rate ours = own(folder, threads, count, sample);
    const Rate http = over_http(folder, threads, count, sample);
    const Rate before = one_row_a_transaction(folder, threads, count / 4, sample);
    const double limit = disk(folder, count, threads, bytes);
    fmt::print(
        "ours {:7.0f} /s ({:.2f} cores)   over HTTP {:7.0f} /s ({:.2f} cores)   one JSON row a transaction {:7.0f} /s "
        "({:.2f} cores)   the disk {:7.0f} /s   "
        "{:.1f} x, {:.2f} of the disk\n",
        ours.per_second, ours.cpu_share, http.per_second, http.cpu_share, before.per_second, before.cpu_share, limit,
        ours.per_second / before.per_second, ours.per_second / limit);
    fs::remove_all(folder);
  }
  return 0;
}
