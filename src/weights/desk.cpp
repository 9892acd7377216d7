#include "weights/desk.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tritonforge::weights {
namespace {

constexpr double kLongestWait = 20, kSourcesWait = 1;  // of one request; a source may have newer weights, or end

net::ServerOptions http_options(const DeskOptions& options) {
  net::ServerOptions http;
  http.host = options.host;
  http.api_key = options.key;
  http.max_body = size_t{1} << 20;
  return http;
}

const net::Response& none_yet() {
  static const net::Response reply = net::Response::json({{"round", nullptr}});
  return reply;
}

}  // namespace

Json to_json(const Member& member) {
  if (member.id.empty()) return {{"source", member.source}, {"version", member.version}};
  return {{"id", member.id}, {"version", member.version}, {"nccl", member.nccl}, {"have", member.have}};
}

Member member_from_json(const Json& json) {
  const std::string where = "POST /join";
  Member member;
  member.version = require<int64_t>(json, "version", where);
  if (json.contains("source")) {
    member.source = require<int64_t>(json, "source", where);
    return member;
  }
  member.id = require<std::string>(json, "id", where);
  if (member.id.empty()) fail(ErrorKind::kUsage, "{}: field 'id' is empty", where);
  member.nccl = require<bool>(json, "nccl", where);
  member.have = require<std::vector<int64_t>>(json, "have", where);
  return member;
}

Json to_json(const Round& round) {
  return {
      {"round", round.name}, {"place", round.place}, {"size", round.size}, {"from", round.from}, {"nccl", round.nccl}};
}

std::optional<Round> round_from_json(const Json& json, const std::string& where) {
  if (require<Json>(json, "round", where).is_null()) return std::nullopt;
  return Round{require<std::string>(json, "round", where), require<int64_t>(json, "place", where),
               require<int64_t>(json, "size", where), require<std::vector<int64_t>>(json, "from", where),
               require<bool>(json, "nccl", where)};
}

Desk::Desk(DeskOptions options) : options_(std::move(options)), http_(http_options(options_)) {
  http_.route_async("POST", "/join", [this](const net::Request& request, net::ResponderPtr responder) {
    join(request, std::move(responder));
  });
  http_.start();
  clock_ = std::thread([this] { keep_time(); });
}

Desk::~Desk() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  clock_.join();
  names_.stop();
  http_.stop(1);
}

void Desk::offer(int64_t version) {
  const std::lock_guard lock(mutex_);
  version_ = version;
  flush_ = true;
  for (auto& [nccl, seen] : seen_) {
    if (!seen.now.empty()) seen.before = std::exchange(seen.now, {});
    seen.last.clear();
  }
  changed_.notify_all();
}

void Desk::join(const net::Request& request, net::ResponderPtr responder) {
  try {
    Member member = member_from_json(request.json());
    const bool known = !member.id.empty() || (member.source >= 0 && member.source < options_.sources);
    if (!known || (!member.id.empty() && std::ssize(member.have) != options_.sources))
      fail(ErrorKind::kUsage, "POST /join: there are {} sources", options_.sources);
    const double patience = std::min(member.id.empty() ? kSourcesWait : kLongestWait, request.deadline.remaining_s());
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(member), std::move(responder), Clock::now(), Deadline::after(patience).at()});
    changed_.notify_all();
  } catch (const Error& error) {
    responder->send(net::Response::error(error));
  }
}

bool Desk::sources_are_there() const {
  std::set<int64_t> there;
  for (const Waiting& one : waiting_) {
    if (one.member.id.empty() && one.member.version == version_) there.insert(one.member.source);
  }
  return std::ssize(there) == options_.sources;
}

bool Desk::are_all_there(bool nccl) const {
  std::set<std::string> there;
  auto first = Clock::time_point::max();
  for (const Waiting& one : waiting_) {
    if (one.member.id.empty() || one.member.nccl != nccl) continue;
    there.insert(one.member.id);
    first = std::min(first, one.since);
  }
  if (there.empty()) return false;
  if (seconds_since(first) >= options_.gather_s) return true;
  const auto found = seen_.find(nccl);
  if (found == seen_.end() || found->second.before.empty()) return false;
  const auto& [last, now, before] = found->second;
  // Who was of the last round and is here again has not got all of it: it failed.
  const bool failed = std::ranges::any_of(there, [&last = last](const std::string& id) { return last.contains(id); });
  if (failed) return std::ranges::includes(there, last);
  return std::ranges::all_of(before, [&](const std::string& id) { return there.contains(id) || now.contains(id); });
}

Desk::Replies Desk::form(bool nccl) {
  names_.remove_all(round_);
  round_ = fmt::format("{}-{}", version_, ++rounds_);
  Replies replies;
  Round round{
      .name = round_, .from = std::vector<int64_t>(static_cast<size_t>(options_.sources), INT64_MAX), .nccl = nccl};
  std::vector<std::pair<Waiting, int64_t>> members;  // and their places
  Seen& seen = seen_[nccl];
  std::set<std::string>& receivers = seen.last;
  receivers.clear();
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    const auto next = std::next(one);
    const Member& member = one->member;
    const bool source = member.id.empty();
    if (source ? member.version == version_ : member.nccl == nccl) {
      if (!source) {
        receivers.insert(member.id);
        for (size_t i = 0; i < round.from.size(); ++i) round.from[i] = std::min(round.from[i], member.have[i]);
      }
      members.emplace_back(*one, source ? 0 : std::ssize(receivers));
      waiting_.erase(one);
    }
    one = next;
  }
  seen.now.insert(receivers.begin(), receivers.end());
  round.size = std::ssize(receivers) + 1;
  for (auto& [one, place] : members) {
    round.place = place;
    replies.emplace_back(one.responder, net::Response::json(to_json(round)));
  }
  log::info("weights {}: round {} of {} receivers", version_, rounds_, receivers.size());
  return replies;
}

Desk::Replies Desk::look() {
  Replies replies;
  const auto now = Clock::now();
  std::erase_if(waiting_, [&](Waiting& one) {
    if (!one.responder->connected()) return true;
    const bool receiver = !one.member.id.empty();
    if (receiver && one.member.version != version_) {
      const Error gone(ErrorKind::kNotFound, fmt::format("weights {} are not offered, {} are", one.member.version,
                                                         version_ < 0 ? "none" : std::to_string(version_)));
      replies.emplace_back(one.responder, net::Response::error(gone));
    } else if (stopping_ || one.until <= now || (flush_ && one.member.version != version_)) {
      replies.emplace_back(one.responder, none_yet());
    } else {
      return false;
    }
    return true;
  });
  flush_ = false;
  if (!sources_are_there()) return replies;
  for (const Waiting& one : waiting_) {
    const bool nccl = one.member.nccl;
    if (one.member.id.empty() || !are_all_there(nccl)) continue;
    Replies formed = form(nccl);
    std::ranges::move(formed, std::back_inserter(replies));
    break;  // the sources are of one round at a time
  }
  return replies;
}

Clock::time_point Desk::next_time() const {
  auto next = Clock::time_point::max();
  const auto gather = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.gather_s));
  const bool sources = sources_are_there();  // else nobody is waited for yet
  for (const Waiting& one : waiting_) {
    next = std::min(next, one.until);
    if (sources && !one.member.id.empty()) next = std::min(next, one.since + gather);
  }
  return next;
}

void Desk::keep_time() {
  std::unique_lock lock(mutex_);
  while (true) {
    Replies replies = look();
    const bool last = stopping_;
    if (!replies.empty()) {
      lock.unlock();
      for (auto& [responder, reply] : replies) responder->send(std::move(reply));
      lock.lock();
      continue;
    }
    if (last) return;
    const auto next = next_time();
    if (next == Clock::time_point::max()) changed_.wait(lock);
    else changed_.wait_until(lock, next);
  }
}

}  // namespace tritonforge::weights
