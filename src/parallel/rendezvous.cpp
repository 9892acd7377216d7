#include "parallel/rendezvous.h"

#include <algorithm>

#include "net/wire.h"

namespace tritonforge::parallel {
namespace {

constexpr double kClientTimeout = Names::kLongestWait + 10;
constexpr double kBeatsOfTheLiving = 3;

int64_t checked(int64_t rank, size_t ranks) {
  if (rank < 0 || rank >= static_cast<int64_t>(ranks))
    fail(ErrorKind::kUsage, "{} is no rank of a job of {}", rank, ranks);
  return rank;
}

}  // namespace

Rendezvous::Rendezvous(net::ServerOptions http, int64_t ranks, double lost_after_s, double beat_s)
    : lost_after_s_(lost_after_s), beat_s_(beat_s), ranks_(static_cast<size_t>(ranks)), http_(std::move(http)) {
  const auto done = [] { return net::Response::json(Json::object()); };
  http_.route("POST", "/ranks/{rank}", [this](const net::Request& request) { return beat(request); });
  http_.route("DELETE", "/ranks/{rank}", [this, done](const net::Request& request) {
    const std::lock_guard lock(mutex_);
    rank_of(request).known = false;
    return done();
  });
  http_.route("POST", "/failure", [this, done](const net::Request& request) {
    const Json body = request.json();
    const std::lock_guard lock(mutex_);
    const int64_t rank = checked(require<int64_t>(body, "rank", request.path), ranks_.size());
    const auto text = require<std::string>(body, "text", request.path);
    if (require<bool>(body, "of_another", request.path)) hear_of_another(rank, text);
    else fail_job(rank, text);
    return done();
  });
  http_.start();
}

Rendezvous::~Rendezvous() {
  names_.stop();
  http_.stop(1);
}

Rendezvous::Rank& Rendezvous::rank_of(const net::Request& request) {
  const std::string& text = request.parameters.at("rank");
  char* end = nullptr;
  const long long rank = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') fail(ErrorKind::kUsage, "'{}' is no rank", text);
  return ranks_[static_cast<size_t>(checked(rank, ranks_.size()))];
}

net::Response Rendezvous::beat(const net::Request& request) {
  const Json body = request.json();
  const std::lock_guard lock(mutex_);
  Rank& rank = rank_of(request);
  rank = {true, require<std::string>(body, "at", request.path), Clock::now(), rank.fell_out};
  look_for_lost();
  look_for_who_broke_it();
  return net::Response::json({{"failed", failure_ ? Json(*failure_) : Json()}});
}

void Rendezvous::look_for_lost() {
  for (int64_t i = 0; i < std::ssize(ranks_); ++i) {
    const Rank& rank = ranks_[static_cast<size_t>(i)];
    const double silent = seconds_since(rank.heard);
    if (rank.known && silent > lost_after_s_) fail_job(i, fmt::format("it was not heard of for {:.0f} s", silent));
  }
}

void Rendezvous::hear_of_another(int64_t rank, const std::string& text) {
  if (!broken_) broken_ = {rank, text, Clock::now()};
  ranks_[static_cast<size_t>(rank)].fell_out = true;
}

void Rendezvous::look_for_who_broke_it() {
  if (!broken_ || seconds_since(broken_->at) < kBeatsOfTheLiving * beat_s_) return;
  std::vector<int64_t> silent;
  for (int64_t i = 0; i < std::ssize(ranks_); ++i) {
    const Rank& rank = ranks_[static_cast<size_t>(i)];
    if (rank.known && !rank.fell_out && rank.heard < broken_->at) silent.push_back(i);
  }
  if (silent.empty()) return fail_job(broken_->rank, broken_->text);
  std::string others;  // one that has much to do is as silent as one that is gone
  for (size_t i = 1; i < silent.size(); ++i) others += fmt::format(", or rank {} is", silent[i]);
  fail_job(silent[0], fmt::format("it is gone{}; rank {}: {}", others, broken_->rank, broken_->text));
}

void Rendezvous::fail_job(int64_t rank, const std::string& why) {
  if (failure_) return;
  std::string text = fmt::format("rank {}: {}", rank, why);
  for (int64_t i = 0; i < std::ssize(ranks_); ++i) {
    const Rank& other = ranks_[static_cast<size_t>(i)];
    text += fmt::format("; rank {} {} {}", i, other.known ? "was at" : "has left; its last was",
                        other.at.empty() ? "nothing yet" : other.at);
  }
  failure_ = std::move(text);
}

Meeting::Meeting(std::string url, const std::string& api_key)
    : url_(std::move(url)), client_({.timeout_s = kClientTimeout, .api_key = api_key, .headers = {}}) {}

std::string Meeting::ask(const std::string& method, const std::string& path, std::string body) {
  const net::Response reply = client_.request(method, url_ + path, std::move(body)).value();
  if (reply.status / 100 != 2) throw net::error_of(reply, method + " " + url_ + path);
  return reply.body;
}

void Meeting::put(const std::string& name, std::string bytes) { ask("PUT", "/keys/" + name, std::move(bytes)); }
void Meeting::remove(const std::string& name) { ask("DELETE", "/keys/" + name); }

std::optional<std::string> Meeting::look(const std::string& name, double wait_s) {
  const Deadline deadline = Deadline::after(wait_s);
  do {
    const double ask_s = std::min(deadline.remaining_s(), Names::kLongestWait);
    const std::string path = fmt::format("/keys/{}?wait_s={:.3f}", name, ask_s);
    net::Response reply = client_.request("GET", url_ + path, "").value();
    if (reply.status / 100 == 2) return std::move(reply.body);
    if (reply.status != 404) throw net::error_of(reply, "GET " + url_ + path);
  } while (!deadline.expired());
  return std::nullopt;
}

std::string Meeting::get(const std::string& name, Deadline deadline) {
  if (auto found = look(name, deadline.remaining_s())) return std::move(*found);
  fail(ErrorKind::kTimeout, "{}: '{}' did not come in time", url_, name);
}

int64_t Meeting::add(const std::string& name, int64_t n) {
  const std::string path = "/counters/" + name;
  return require<int64_t>(parse_json(ask("POST", path, Json{{"add", n}}.dump()), path), "value", path);
}

std::optional<std::string> Meeting::beat(int64_t rank, const std::string& at) {
  const std::string path = fmt::format("/ranks/{}", rank);
  const Json reply = parse_json(ask("POST", path, Json{{"at", at}}.dump()), path);
  const Json failed = require<Json>(reply, "failed", path);
  if (failed.is_null()) return std::nullopt;
  return failed.get<std::string>();
}

void Meeting::leave(int64_t rank) { ask("DELETE", fmt::format("/ranks/{}", rank)); }
void Meeting::report_failure(int64_t rank, const std::string& text, bool of_another) {
  ask("POST", "/failure", Json{{"rank", rank}, {"text", text}, {"of_another", of_another}}.dump());
}

}  // namespace tritonforge::parallel
