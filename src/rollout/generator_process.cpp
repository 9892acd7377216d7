#include "rollout/generator_process.h"

#include <unistd.h>

#include <array>
#include <future>
#include <utility>

#include "base/log.h"
#include "net/retry.h"
#include "net/wire.h"

namespace tritonforge::rollout {
namespace {

constexpr double kPoll = 10;     // seconds that the buffer may let a request for work wait
constexpr double kHeardOf = 10;  // seconds between two requests of a process that has no thread free
constexpr int kMalformed = 400, kNobodys = 404, kTooLarge = 413;
constexpr net::Backoff kAgain{.first_s = 0.1, .max_s = 5, .factor = 2};

std::string host_and_process() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}-{}", host.data(), getpid());
}

// Why it is no answer; "": it is one.
std::string refusal(const std::string& url, const Result<net::Response>& response) {
  if (!response.ok()) return response.error().what();
  if (response->status / 100 == 2) return "";
  return fmt::format("{} answered {}: {}", url, response->status, net::said_by(*response));
}

void check_answer(const std::string& url, const Result<net::Response>& response) {
  if (const std::string reason = refusal(url, response); !reason.empty()) fail(ErrorKind::kUnavailable, "{}", reason);
}

// Hangs up where it is stopped: what the buffer gives then is another's once it hears of the end.
Result<net::Response> exchange(net::AsyncClient& client, net::AsyncRequest request, const std::stop_token& stop) {
  const auto ended = std::make_shared<std::promise<Result<net::Response>>>();
  const auto call = client.send(std::move(request), net::whole_reply([ended](Result<net::Response> reply) {
                                  ended->set_value(std::move(reply));
                                }));
  const std::stop_callback hang_up(stop, [&] { call->cancel(); });
  return ended->get_future().get();
}

}  // namespace

GeneratorProcess::GeneratorProcess(GeneratorOptions options, std::unique_ptr<ChatCodec> codec)
    : options_(std::move(options)),
      codec_(std::move(codec)),
      peers_(options_.peers),
      client_(net::ClientOptions{.timeout_s = 60, .api_key = options_.peers.api_key}),
      evaluations_(options_.evaluations),
      generator_(peers_, *codec_, evaluations_, activity_, this),
      pool_(options_.concurrency,
            [this](const GroupPtr& group, int64_t sample, std::stop_token stop) { run_one(group, sample, stop); }) {
  if (options_.name.empty()) options_.name = host_and_process();
  asking_ = std::jthread([this] { ask_for_work(stop_.get_token()); });
}

GeneratorProcess::~GeneratorProcess() {
  stop(0);
  pool_.join();
}

bool GeneratorProcess::stop(double grace_s) {
  stop_.request_stop();
  pool_.request_stop();
  const bool idle = pool_.wait_idle(Deadline::after(grace_s));
  if (!asking_.joinable()) return idle;
  asking_.join();
  try {
    ask(/*leaving=*/true);
  } catch (const Error& error) {
    log::warn("the buffer is not told of the end: {}", error.what());
  }
  return idle;
}

GeneratorProcess::State GeneratorProcess::state() const {
  std::lock_guard lock(mutex_);
  return {{std::ssize(holding_), activity_.generating, activity_.evaluating, activity_.turns, activity_.failed_turns,
           activity_.sampled_tokens},
          delivered_,
          buffer_error_.empty() ? peers_.refused_key() : buffer_error_};
}

void GeneratorProcess::say(const std::string& error) {
  std::lock_guard lock(mutex_);
  if (!error.empty() && buffer_error_.empty()) log::warn("no work from the buffer: {}", error);
  if (error.empty() && !buffer_error_.empty()) log::info("the buffer answers again");
  buffer_error_ = error;
}

std::vector<WorkItem> GeneratorProcess::ask(bool leaving) {
  WorkRequest request;
  request.worker = options_.name;
  request.leaving = leaving;
  {
    std::lock_guard lock(mutex_);
    request.holding.assign(holding_.begin(), holding_.end());
    request.count = leaving ? 0 : static_cast<int64_t>(options_.concurrency) - std::ssize(holding_);
  }
  request.activity = state().activity;
  request.refused_key = peers_.refused_key();
  request.timeout_s = request.count > 0 ? kPoll : 0;
  const std::string url = options_.buffer + "/v2/work";
  net::AsyncRequest post{.method = "POST", .url = url, .headers = {{"content-type", "application/json"}}};
  if (!options_.peers.api_key.empty()) post.headers["authorization"] = "Bearer " + options_.peers.api_key;
  post.body = std::make_shared<const std::string>(to_json(request).dump());
  post.timeout_s = leaving ? 5 : kPoll + 50;
  const auto response = exchange(asking_client_, std::move(post), leaving ? std::stop_token() : stop_.get_token());
  check_answer(url, response);
  const Json body = parse_json(response->body, url);
  std::vector<WorkItem> items;
  for (const Json& item : require_list(body, "work", url)) items.push_back(work_item_from_json(item, url + " work"));
  return items;
}

void GeneratorProcess::ask_for_work(std::stop_token stop) {
  for (int tries = 0; !stop.stop_requested();) {
    std::vector<WorkItem> items;
    try {
      items = ask(/*leaving=*/false);
      for (const WorkItem& item : items) require_codec(*codec_, item.group);  // what is not held is others' work
      say("");
      tries = 0;
    } catch (const Error& error) {
      if (stop.stop_requested()) return;
      say(error.what());
      net::pause(kAgain.pause_s(tries++), stop);
      continue;
    }
    for (WorkItem& item : items) {
      const std::string id = trajectory_id(item.group.id, item.sample);
      {
        std::lock_guard lock(mutex_);
        holding_.insert(id);
        if (!item.kept.empty()) kept_[id] = std::move(item.kept);
      }
      pool_.submit(std::make_shared<const GroupSpec>(std::move(item.group)), {item.sample});
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, std::chrono::duration<double>(kHeardOf), [&] {
      const auto places = static_cast<int64_t>(options_.concurrency);
      return places - std::ssize(holding_) >= places_worth_asking_for(places);
    });
  }
}

void GeneratorProcess::run_one(const GroupPtr& group, int64_t sample, std::stop_token stop) {
  const std::string id = trajectory_id(group->id, sample);
  const auto bytes_of = [&]() -> std::optional<std::string> {
    try {
      const auto trajectory = generator_.run(*group, sample, stop);
      if (!trajectory) return std::nullopt;
      return to_bytes(*trajectory);
    } catch (const std::exception& error) {
      log::error("trajectory {}: {}", id, error.what());
      return to_bytes(failed_trajectory(*group, sample, Fault::kInternal, error.what()));
    }
  };
  if (auto bytes = bytes_of()) deliver(*group, sample, *std::move(bytes), stop);
  {
    std::lock_guard lock(mutex_);
    holding_.erase(id);
    kept_.erase(id);
  }
  changed_.notify_all();
}

// A refusal that is not the trajectory's own, as of a wrong key, is for somebody to mend: what is finished waits for
// it. Of one that no buffer would take the place is taken by one that says why, or it would be made again and again.
void GeneratorProcess::deliver(const GroupSpec& group, int64_t sample, std::string bytes, std::stop_token stop) {
  const std::string id = trajectory_id(group.id, sample), url = options_.buffer + "/v2/samples";
  const net::ClientOptions how{
      .timeout_s = 60, .api_key = options_.peers.api_key, .headers = {{"x-generator", options_.name}}};
  bool aside = false;
  for (int tries = 0;; ++tries) {
    const auto response = client_.request("POST", url, bytes, kTrajectoryContentType, &how);
    const std::string reason = refusal(url, response);
    const int status = response.ok() ? response->status : 0;
    if (reason.empty()) {
      std::lock_guard lock(mutex_);
      ++delivered_;
      return;
    }
    if (status == kNobodys) return log::warn("trajectory {} is for nobody any more: {}", id, reason);
    if (status == kMalformed || status == kTooLarge) {
      log::error("trajectory {} is set aside, it is not taken: {}", id, reason);
      if (std::exchange(aside, true)) return;
      bytes = to_bytes(failed_trajectory(group, sample, Fault::kInternal, reason));
      continue;
    }
    log::warn("trajectory {} waits for the buffer: {}", id, reason);
    if (!net::pause(kAgain.pause_s(tries), stop))
      return log::error("trajectory {} was not delivered before the stop and will be made again: {}", id, reason);
  }
}

std::vector<KeptTurn> GeneratorProcess::kept_turns(const std::string& group_id, int64_t sample) {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(trajectory_id(group_id, sample));
  return found == kept_.end() ? std::vector<KeptTurn>() : found->second;
}

void GeneratorProcess::keep_turn(const std::string& group_id, int64_t sample, int64_t index, const KeptTurn& turn) {
  const std::string url = options_.buffer + "/v2/turns";
  check_answer(url, client_.post(url, {{"group_id", group_id},
                                       {"sample", sample},
                                       {"index", index},
                                       {"turn", to_json(turn.turn)},
                                       {"judged", turn.judged}}));
}

}  // namespace tritonforge::rollout
