// libs: tf_rollout
// Generator processes as a buffer sees them: each holds its trajectories, asks for work as its places come free, and
// delivers what ended. All of them are this one process, with a thread and the client's.
//   mock_generators BUFFER PROCESSES PLACES RATE SECONDS BURST STEP
// PLACES of each are filled first; then BURST trajectories end at once, then RATE a second for SECONDS. Beside them, as
// a run does: leases of STEP groups by name, each asked for a second time and fetched as the trainer does. Prints
// "claimed SECONDS", and at the end figures in one line of JSON: medians, 99th percentiles and maxima in ms.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "bench/mock_trajectory.h"
#include "contract/lease.h"
#include "contract/sequence_batch.h"
#include "net/async_client.h"
#include "net/retry.h"
#include "net/wire.h"
#include "rollout/generator.h"
#include "rollout/work.h"

using namespace tritonforge;

namespace {

constexpr int64_t kSamples = 8;
constexpr double kHeardOf = 10;  // as rollout/generator_process.cpp
constexpr net::Backoff kAgain{.first_s = 0.1, .max_s = 5, .factor = 2};

struct Times {
  std::mutex mutex;
  std::vector<double> ms;
  void add(Clock::time_point since) {
    const std::lock_guard lock(mutex);
    ms.push_back(1e3 * seconds_since(since));
  }
  Json figures() {
    std::ranges::sort(ms);
    if (ms.empty()) return nullptr;
    return {ms[ms.size() / 2], ms[ms.size() * 99 / 100], ms.back()};
  }
};

Json post(const std::string& url, const Json& body) {
  return net::HttpClient({.timeout_s = 600}).post_json(url, body).value();
}

class Generators {
 public:
  Generators(std::string buffer, int64_t processes, int64_t places)
      : buffer_(std::move(buffer)), places_(places), processes_(static_cast<size_t>(processes)) {}

  void submit(int64_t groups) {
    Json list = Json::array();
    for (int64_t i = 0; i < groups; ++i) {
      list.push_back({{"group_id", fmt::format("g{}", i)},
                      {"problem_id", "p"},
                      {"problem_source", std::string(1500, '#')},
                      {"n_samples", kSamples}});
    }
    post(buffer_ + "/v2/rollouts", {{"groups", list}, {"options", Json::object()}});
  }

  void claim() {
    std::unique_lock lock(mutex_);
    for (size_t i = 0; i < processes_.size(); ++i) ask(i);
    changed_.wait(lock, [&] {
      return std::ranges::all_of(processes_, [&](const Process& p) { return std::ssize(p.holding) == places_; });
    });
  }

  // The groups that are held, in the order in which run() ends them.
  std::vector<std::string> groups() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (size_t round = 0; round < static_cast<size_t>(places_ / kSamples); ++round) {
      for (const Process& p : processes_) names.push_back(p.under_way.at(round * kSamples).first);
    }
    return names;
  }

  void run(double rate, double seconds, int64_t burst) {
    std::unique_lock lock(mutex_);
    const auto start = Clock::now();
    const auto after = [&](double s) {
      return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
    };
    const auto count = burst + static_cast<int64_t>(rate * seconds);
    int64_t ended = 0;
    while (ended < count || written_ < count) {
      const auto now = Clock::now();
      for (; !later_.empty() && later_.begin()->first <= now; later_.erase(later_.begin())) later_.begin()->second();
      for (; ended < count; ++ended) {
        const auto due = after(std::max<double>(0, static_cast<double>(ended - burst)) / rate);
        if (due > now || !end_one(due)) break;
      }
      if (burst > 0 && written_ >= burst && burst_s_ == 0) burst_s_ = seconds_since(start);
      auto wake = now + std::chrono::milliseconds(20);
      if (!later_.empty()) wake = std::min(wake, later_.begin()->first);
      changed_.wait_until(lock, std::max(wake, now + std::chrono::milliseconds(1)));
    }
  }

  Json figures() {
    const std::lock_guard lock(mutex_);
    return {{"written", written_},    {"again", again_},         {"asks", asks_},
            {"put", puts_.figures()}, {"ask", asked_.figures()}, {"burst_s", burst_s_}};
  }

 private:
  struct Process {
    std::set<std::string> holding;
    std::deque<std::pair<std::string, int64_t>> under_way;  // group and sample of those that have not ended
    bool asking = false;
    int tries = 0;
  };

  // With the mutex held, as all that follows.
  void ask(size_t index) {
    Process& process = processes_[index];
    process.asking = true;
    ++asks_;
    rollout::WorkRequest request;
    request.worker = fmt::format("generator-{}", index);
    request.holding.assign(process.holding.begin(), process.holding.end());
    request.count = places_ - std::ssize(process.holding);
    request.timeout_s = request.count > 0 ? kHeardOf : 0;
    const auto since = Clock::now();
    send("/v2/work", to_json(request).dump(), "application/json", {}, [this, index, since](bool ok, const Json& body) {
      Process& p = processes_[index];
      p.asking = false;
      if (!ok) {
        later(kAgain.pause_s(p.tries++), [this, index] { ask(index); });
        return;
      }
      p.tries = 0;
      asked_.add(since);
      for (const Json& item : body.at("work")) {
        const std::string group = item.at("group").at("group_id");
        const int64_t sample = item.at("sample");
        if (p.holding.insert(rollout::trajectory_id(group, sample)).second) p.under_way.emplace_back(group, sample);
      }
      if (!ask_if_places_are_free(index)) later(kHeardOf, [this, index] { heard_of(index); });
    });
  }
  bool ask_if_places_are_free(size_t index) {
    const Process& process = processes_[index];
    const bool worth_it = places_ - std::ssize(process.holding) >= rollout::places_worth_asking_for(places_);
    if (worth_it && !process.asking && process.tries == 0) ask(index);
    return worth_it;
  }
  void heard_of(size_t index) {
    if (!processes_[index].asking && processes_[index].tries == 0) ask(index);
  }

  // False: nobody holds any.
  bool end_one(Clock::time_point due) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      const size_t index = next_++ % processes_.size();
      Process& process = processes_[index];
      if (process.under_way.empty()) continue;
      const auto [group, sample] = process.under_way.front();
      process.under_way.pop_front();
      Trajectory t = sample_;
      t.group_id = group;
      t.id = rollout::trajectory_id(group, sample);
      t.turns.back().reward = static_cast<double>(sample);  // groups of equal rewards are not sent to a trainer
      rollout::credit_trajectory(t, RolloutOptions{});
      deliver(index, t.id, rollout::to_bytes(t), due, 0);
      return true;
    }
    return false;
  }
  void deliver(size_t index, const std::string& id, const std::string& bytes, Clock::time_point due, int tries) {
    send("/v2/samples", bytes, rollout::kTrajectoryContentType, fmt::format("generator-{}", index),
         [this, index, id, bytes, due, tries](bool ok, const Json&) {
           if (!ok) {
             ++again_;
             later(kAgain.pause_s(tries), [=, this] { deliver(index, id, bytes, due, tries + 1); });
             return;
           }
           ++written_;
           puts_.add(due);
           processes_[index].holding.erase(id);
           ask_if_places_are_free(index);
         });
  }

  void later(double seconds, std::function<void()> what) {
    later_.emplace(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)),
                   std::move(what));
  }
  // `done` is called with the mutex held.
  void send(const std::string& path, std::string body, const std::string& type, const std::string& generator,
            std::function<void(bool ok, const Json& reply)> done) {
    net::AsyncRequest request{.method = "POST", .url = buffer_ + path, .headers = {{"content-type", type}}};
    if (!generator.empty()) request.headers["x-generator"] = generator;
    request.body = std::make_shared<const std::string>(std::move(body));
    struct Reply {
      int status = 0;
      std::string body;
    };
    const auto reply = std::make_shared<Reply>();
    client_.send(std::move(request), {.on_head = [reply](int status, const net::Headers&) { reply->status = status; },
                                      .on_body =
                                          [reply](std::string_view bytes) {
                                            reply->body += bytes;
                                            return true;
                                          },
                                      .on_done =
                                          [this, reply, done = std::move(done)](std::optional<Error> error, bool) {
                                            const bool ok = !error && reply->status == 200;
                                            if (!error && !ok && reply->status != 503)
                                              fmt::print(stderr, "{}\n", reply->body);
                                            const Json body = ok ? Json::parse(reply->body) : Json();
                                            const std::lock_guard lock(mutex_);
                                            done(ok, body);
                                            changed_.notify_all();
                                          }});
  }

  const std::string buffer_;
  const int64_t places_;
  const Trajectory sample_ = mock_trajectory();
  std::mutex mutex_;  // all below
  std::condition_variable changed_;
  std::vector<Process> processes_;
  std::multimap<Clock::time_point, std::function<void()>> later_;
  size_t next_ = 0;
  int64_t written_ = 0, again_ = 0, asks_ = 0;
  double burst_s_ = 0;
  Times puts_, asked_;
  net::AsyncClient client_;  // last: its callbacks use all of the above
};

struct Leases {
  Times again, read;
  int64_t count = 0;
  double mb = 0;
};

// What is busy is asked again, until the stop: then it throws.
net::Response patient(net::HttpClient& client, const std::string& method, const std::string& url, const Json& body,
                      std::stop_token stop) {
  const auto attempt = [&]() -> Result<net::Response> {
    auto reply = client.request(method, url, body.is_null() ? "" : body.dump());
    if (reply.ok() && reply->status != 200) return net::error_of(*reply, url);
    return reply;
  };
  return net::retry<net::Response>(url, Deadline::after(600), attempt, {.backoff = kAgain, .stop = stop}).value();
}

void train(const std::string& buffer, const std::vector<std::string>& groups, int64_t step, std::stop_token stop,
           Leases& leases) {
  net::HttpClient client({.timeout_s = 120, .headers = {{"accept", kSequencesContentType}}});
  try {
    for (size_t at = 0; at + static_cast<size_t>(step) <= groups.size(); at += static_cast<size_t>(step)) {
      LeaseRequest request{.lease_id = fmt::format("step-{}", leases.count), .count = step, .timeout_s = 1};
      const auto first = groups.begin() + static_cast<int64_t>(at);
      request.group_ids.assign(first, first + step);
      const Json body = to_json(request);
      patient(client, "POST", buffer + "/v2/groups/lease", body, stop);
      const auto asked = Clock::now();
      patient(client, "POST", buffer + "/v2/groups/lease", body, stop);
      leases.again.add(asked);
      const auto reading = Clock::now();
      const std::string url = buffer + "/v2/leases/" + request.lease_id;
      leases.mb = 1e-6 * static_cast<double>(patient(client, "GET", url, nullptr, stop).body.size());
      leases.read.add(reading);
      patient(client, "POST", url + "/commit", {{"step", ++leases.count}}, stop);
    }
  } catch (const Error& error) {
    if (!stop.stop_requested()) throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    fmt::print(stderr, "usage: mock_generators BUFFER PROCESSES PLACES RATE SECONDS BURST STEP\n");
    return 2;
  }
  raise_file_limit();
  const std::string buffer = argv[1];
  const int64_t processes = std::atoll(argv[2]), places = std::atoll(argv[3]), burst = std::atoll(argv[6]);
  const double rate = std::atof(argv[4]), seconds = std::atof(argv[5]);
  Generators generators(buffer, processes, places);
  generators.submit((processes * places + burst + static_cast<int64_t>(rate * seconds)) / kSamples + processes);
  const auto start = Clock::now();
  generators.claim();
  fmt::print("claimed {:.3f}\n", seconds_since(start));
  std::fflush(stdout);
  Leases leases;
  std::jthread trainer([&, groups = generators.groups()](std::stop_token stop) {
    train(buffer, groups, std::atoll(argv[7]), stop, leases);
  });
  generators.run(rate, seconds, burst);
  trainer.request_stop();
  trainer.join();
  Json figures = generators.figures();
  figures["lease"] = leases.again.figures();
  figures["read"] = leases.read.figures();
  figures["leases"] = leases.count;
  figures["read_mb"] = leases.mb;
  fmt::print("{}\n", figures.dump());
  return 0;
}
