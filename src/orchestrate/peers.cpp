#include "orchestrate/peers.h"

#include <algorithm>
#include <future>
#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "net/retry.h"
#include "net/wire.h"
#include "rollout/peers.h"

namespace tritonforge::orchestrate {
namespace {

constexpr double kRolePatience = 300;  // at least: a role may take so long to come back
constexpr double kQuietRepeats = 10;   // a restart, which the supervisor tells of, takes less
constexpr double kLeaseTimeout = 90;
constexpr double kInstallTimeout = 600;
constexpr double kBringUpPatience = 20;  // in which the trainer may replace the weights that a fresh engine reads
constexpr int kPublications = 3;         // of weights that a fresh engine finds damaged, until that is taken for good
constexpr int kInternalErrors = 3;       // of the trainer, until they are taken for good

// POST path and body of an update, in SGLang's names.
std::pair<std::string, Json> update_request(const PublishedWeights& weights) {
  const bool folder = fs::is_directory(weights.path);
  Json body = {{folder ? "model_path" : "path", weights.path.string()},
               {"weight_version", std::to_string(weights.version)},
               {"checksums", weights.checksums}};
  if (weights.device) body["device"] = to_json(*weights.device);
  if (weights.tcp) body["tcp"] = to_json(*weights.tcp);
  if (weights.group) body["group"] = to_json(*weights.group);
  return {folder ? "/update_weights_from_disk" : "/update_weights_from_tensor", std::move(body)};
}

Role::Request message_of(const std::string& path, const StepRequest& request) {
  Role::Request message{.path = path, .timeout_s = 3600};
  if (request.sequences.empty()) {
    message.body = to_json(request).dump();
  } else {
    message.content_type = kSequencesContentType;
    message.body = to_binary({.step = request.step, .sequences = request.sequences});
  }
  return message;
}

bool is_damaged(const Error& error) {
  return error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kNotFound;
}

}  // namespace

Role::Role(Supervisor& supervisor, std::string name, std::string url)
    : supervisor_(&supervisor),
      name_(std::move(name)),
      url_(std::move(url)),
      client_(std::make_shared<net::HttpClient>()) {}

net::Response Role::exchange(const Request& request) const {
  const std::string what = fmt::format("{}: {} {}", name_, request.method, request.path);
  const Deadline deadline = Deadline::after(std::max(request.timeout_s, kRolePatience));
  const net::ClientOptions options{.timeout_s = request.timeout_s};
  bool reached = false;
  const auto attempt = [&]() -> Result<net::Response> {
    reached = request.given_up && request.given_up();
    if (reached) return Error(ErrorKind::kConflict, what + ": nobody waits for it any more");
    auto reply = client_->request(request.method, url_ + request.path, request.body, request.content_type, &options);
    reached = reply.ok()
                  ? reply->status != 503 && reply->status != 429
                  : reply.error().kind() != ErrorKind::kUnavailable && reply.error().kind() != ErrorKind::kTimeout;
    if (reached) return reply;
    if (!reply.ok() && reply.error().kind() == ErrorKind::kUnavailable && request.missed) request.missed();
    supervisor_->check();  // what this one waits for may be another role
    supervisor_->wait_ready(name_, deadline);
    return reply.ok() ? net::error_of(*reply, what) : Error(reply.error().kind(), what + ": " + reply.error().what());
  };
  const auto begun = Clock::now();
  bool told = false;  // a restart is told of already; what goes on for longer, a full disk say, is not
  const auto note = [&](const Error& error, double) {
    if (told || seconds_since(begun) < kQuietRepeats) return;
    told = true;
    log::warn("{}; it is asked again for {:.0f} s", error.what(), deadline.remaining_s());
  };
  return net::retry<net::Response>(what, deadline, attempt,
                                   {.again = [&](const Error&) { return !reached; }, .on_pause = note})
      .value();
}

Json Role::ask(const Request& request) const {
  const net::Response reply = exchange(request);
  const std::string what = fmt::format("{}: {} {}", name_, request.method, request.path);
  if (reply.status / 100 != 2) throw net::error_of(reply, what);
  return parse_json(reply.body, what);
}

Json Role::post(const std::string& path, const Json& body, double timeout_s) const {
  return ask({.path = path, .body = body.dump(), .timeout_s = timeout_s});
}

void Buffer::submit(const std::vector<GroupSpec>& groups) const {
  if (groups.empty()) return;
  Json list = Json::array();
  for (const GroupSpec& group : groups) {
    list.push_back({{"group_id", group.id},
                    {"problem_id", group.problem_id},
                    {"problem_source", group.problem_source},
                    {"n_samples", group.n_samples},
                    {"seed", group.seed}});
  }
  role_.post("/v2/rollouts", {{"groups", std::move(list)}, {"options", to_json(groups.front().options)}}, 60);
}

Lease Buffer::lease(LeaseRequest request, double round_s, const std::function<void()>& waiting) const {
  request.timeout_s = round_s;
  int64_t finished = -1;
  Deadline deadline = Deadline::after(stalled_after_s_);
  std::optional<Deadline> refused;
  while (true) {
    try {
      return lease_from_json(role_.post("/v2/groups/lease", to_json(request), kLeaseTimeout));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      const State now = state();
      if (now.refused_key.empty()) refused.reset();
      else if (!refused) refused = Deadline::after(key_patience_s_);
      else if (refused->expired()) fail(ErrorKind::kUnavailable, "{}", now.refused_key);
      if (now.trajectories != finished) {
        finished = now.trajectories;
        deadline = Deadline::after(stalled_after_s_);
      } else if (deadline.expired()) {
        fail(ErrorKind::kTimeout, "no trajectory ended for {:.0f} s (supervisor.stalled_after_s): {}", stalled_after_s_,
             error.what());
      }
    }
    role_.check_all();  // the groups wait for engines and evaluator, too
    waiting();
  }
}

GroupProgress Buffer::progress(const std::string& group_prefix) const {
  return group_progress_from_json(
      role_.ask({.method = "GET", .path = "/v2/progress?groups=" + percent_encode(group_prefix)}));
}

Buffer::State Buffer::state() const {
  const std::string where = "GET /v2/status";
  const Json status = role_.ask({.method = "GET", .path = "/v2/status"});
  return {require<int64_t>(status, "trajectories", where),
          optional_field<std::string>(status, "refused_key", "", where)};
}

void Buffer::commit(const std::string& lease_id, int64_t step) const {
  role_.post(lease_path(lease_id, "commit"), {{"step", step}}, 60);
}

void Buffer::require_results(const std::vector<Lease>& leases, const std::string& what) const {
  std::string reason;
  for (const Lease& lease : leases) {
    if (lease.figures.failed < lease.figures.trajectories || lease.figures.trajectories == 0) return;
    for (const LeasedGroup& group : lease.groups) {
      if (!reason.empty() || group.samples.empty() || group.samples[0].turns.empty()) continue;
      const Verdict& verdict = group.samples[0].turns.back().verdict;
      reason = fmt::format("{}: {}", name_of(verdict.fault), verdict.diagnostics);
    }
  }
  if (leases.empty()) return;
  for (const Lease& lease : leases) role_.post(lease_path(lease.id, "discard"), Json::object(), 60);
  fail(ErrorKind::kUnavailable, "{}: every trajectory failed, none through the model: {}", what, reason);
}

void Buffer::release(const std::string& lease_id) const {
  role_.post(lease_path(lease_id, "release"), Json::object(), 60);
}

void Trainer::go_on(const std::function<void(int64_t next)>& work) {
  while (true) {
    const int64_t next = status().step + 1;
    try {
      return work(next);
    } catch (const RolledBack& back) {
      log::warn("{}; it goes on from its last checkpoint", back.what());
    }
  }
}

TrainerStatus Trainer::status() {
  const auto status = trainer_status_from_json(role_.ask({.method = "GET", .path = "/status"}));
  steps_ = status.step;
  return status;
}

Json Trainer::ask(Role::Request request, int64_t counts_on) const {
  const std::string what = fmt::format("trainer: {} {}", request.method, request.path);
  int internal_errors = 0;
  const auto attempt = [&]() -> Result<Json> {
    const net::Response reply = role_.exchange(request);
    if (reply.status / 100 == 2) return parse_json(reply.body, what);
    Error error = net::error_of(reply, what);
    const Json body = parse_json_or_discard(reply.body);
    const bool elsewhere = reply.status == 409 && body.is_object() &&
                           body.value("expected_step", counts_on + 1) != counts_on + 1;
    if (elsewhere) throw RolledBack(error.what());
    return error;
  };
  const auto again = [&](const Error& error) {
    return error.kind() == ErrorKind::kInternal && ++internal_errors < kInternalErrors;
  };
  const auto note = [&](const Error& error, double pause_s) {
    log::warn("{}; again in {:.1f} s", error.what(), pause_s);
  };
  return net::retry<Json>(what, Deadline::after(std::max(request.timeout_s, kRolePatience)), attempt,
                          {.again = again, .backoff = {.first_s = 1, .max_s = 5}, .on_pause = note})
      .value();
}

Json Trainer::post(const std::string& path, Json body, int64_t counts_on, double timeout_s) const {
  body["step"] = counts_on;
  return ask({.path = path, .body = body.dump(), .timeout_s = timeout_s}, counts_on);
}

StepResult Trainer::step(Role::Request message, int64_t step) {
  StepResult result = step_result_from_json(ask(std::move(message), step - 1));
  TF_CHECK(result.metrics.step == step, "the trainer answered to step {} with {}", step, result.metrics.step);
  steps_ = step;
  return result;
}

StepResult Trainer::step(const StepRequest& request) { return step(message_of("/step", request), request.step); }

StepResult Trainer::step_of_many(int64_t step, int64_t last,
                                 const std::function<StepRequest(int64_t step)>& request_of) {
  std::future<bool> sent;
  if (step < last) sent = std::async(std::launch::async, [&] { return send_ahead(request_of(step + 1)); });
  StepResult result;
  try {
    result = this->step(ahead_ == step ? StepRequest{.step = step, .sequences = {}} : request_of(step));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound || ahead_ != step) throw;
    result = this->step(request_of(step));  // it was started again meanwhile
  }
  ahead_ = sent.valid() && sent.get() ? step + 1 : 0;
  return result;
}

bool Trainer::send_ahead(const StepRequest& request) const {
  const Role::Request message = message_of("/prepare", request);
  const net::ClientOptions options{.timeout_s = message.timeout_s};
  const auto reply = net::HttpClient().request(message.method, role_.url() + message.path, message.body,
                                               message.content_type, &options);
  return reply.ok() && reply->status / 100 == 2;
}

PublishedWeights Trainer::publish(int64_t version, int64_t steps) const {
  return published_weights_from_json(post("/publish_weights", {{"version", version}, {"to", weights_}}, steps, 600));
}

void Trainer::finish(const fs::path& folder) {
  // A buffer that is just being restarted takes the commits a little later; the checkpoint is written once.
  const auto save = [&]() -> Result<int64_t> {
    const Json saved = post("/save", Json::object(), steps_, 1800);
    const auto left = require<int64_t>(saved, "uncommitted_leases", "the trainer's reply to POST /save");
    if (left == 0) return left;
    return Error(ErrorKind::kUnavailable,
                 fmt::format("{} leases are not committed (the trainer's log says why)", left));
  };
  net::retry<int64_t>("the buffer to take the trainer's commits", Deadline::after(kRolePatience), save).value();
  export_model(folder);
}

void Trainer::export_model(const fs::path& folder) const {
  post("/export", {{"folder", folder.string()}}, steps_, 1800);
}

void Engines::require(int64_t version) {
  {
    std::lock_guard lock(mutex_);
    min_version_ = version;
  }
  send_barrier(kRolePatience);
}

void Engines::send_barrier(double patience_s) const {
  int64_t version = 0;
  {
    std::lock_guard lock(mutex_);
    version = min_version_;
  }
  const Json body = {{"min_weight_version", version}};
  // A router that is just starting is told by bring_up_router, before it knows a single engine.
  if (patience_s > 0) router_.post("/weight_barrier", body, 60);
  else net::HttpClient().post_json(router_.url() + "/weight_barrier", body).value();
}

bool Engines::wants(int64_t version) const {
  std::lock_guard lock(mutex_);
  const bool closed = min_version_ == std::numeric_limits<int64_t>::max();
  const bool failed = version == weights_.version && std::ranges::any_of(deliveries_, [&](const auto& delivery) {
                        const auto outcome = delivery->outcome(version);
                        return outcome && !outcome->ok();
                      });
  return (version > weights_.version || failed) && (closed || version >= min_version_);
}

Engines::Engines(Role router, std::vector<Role> own, std::vector<std::string> external, double late_after_s)
    : router_(std::move(router)), own_(std::move(own)), external_(std::move(external)), late_after_s_(late_after_s) {
  for (const Role& engine : own_) {
    const auto missed = [this, &engine] {
      const std::lock_guard lock(mutex_);
      missed_.insert(engine.name());
      ended_.notify_all();
    };
    const auto send = [missed, &engine](const PublishedWeights& weights, const std::function<bool()>& given_up) {
      const auto [path, body] = update_request(weights);
      const Role::Request request{
          .path = path, .body = body.dump(), .timeout_s = kInstallTimeout, .given_up = given_up, .missed = missed};
      return installed_weights_from_json(engine.url(), engine.ask(request));
    };
    const auto ended = [this](const Result<InstalledWeights>& outcome) {
      const std::lock_guard lock(mutex_);  // who waits looks under it
      if (!installing_ && !outcome.ok()) log::warn("{}; it was late, and is asked for nothing", outcome.error().what());
      ended_.notify_all();
    };
    deliveries_.push_back(std::make_unique<Delivery>(engine.name(), send, ended));
  }
}

std::vector<InstalledWeights> Engines::install(const PublishedWeights& weights) {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  weights_ = weights;
  installing_ = true;
  missed_.clear();
  for (const auto& delivery : deliveries_) delivery->give(weights);

  // Until all have come to an end; once one has the weights, not for those that are down nor much longer for others.
  size_t seen = 0;
  std::optional<Clock::time_point> late;
  while (true) {
    size_t ended = 0, installed = 0, down = 0;
    for (const auto& delivery : deliveries_) {
      const auto outcome = delivery->outcome(weights.version);
      ended += outcome.has_value();
      installed += outcome && outcome->ok();
      down += !outcome && missed_.contains(delivery->engine());
    }
    if (ended + (installed > 0 ? down : 0) == deliveries_.size()) break;
    if (ended > seen && installed > 0) {
      const auto patience = std::chrono::duration<double>(std::max(late_after_s_, seconds_since(start)));
      late = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
    }
    seen = ended;
    if (!late) ended_.wait(lock);
    else if (ended_.wait_until(lock, *late) == std::cv_status::timeout) break;
  }
  installing_ = false;
  lock.unlock();

  std::vector<InstalledWeights> installed;
  for (const auto& delivery : deliveries_) {
    const auto outcome = delivery->outcome(weights.version);
    if (outcome) installed.push_back(outcome->value());
    else
      log::warn("{} is late with weights {}: it is asked for nothing until it has them", delivery->engine(),
                weights.version);
  }
  require(weights.version);
  return installed;
}

PublishedWeights Engines::newest() const {
  std::lock_guard lock(mutex_);
  return weights_;
}

Result<int64_t> Engines::give(const std::string& url, const PublishedWeights& weights) const {
  if (!weights.can_be_had()) return weights.version;
  const auto [path, body] = update_request(weights);
  const auto reply = net::HttpClient({.timeout_s = kInstallTimeout}).post_json(url + path, body);
  if (!reply.ok()) return reply.error();
  check_installed(installed_weights_from_json(url, *reply), weights);
  if (newest().version == weights.version) return weights.version;
  return Error(ErrorKind::kUnavailable, fmt::format("{} has weights {}, newer ones came", url, weights.version));
}

void Engines::bring_up(const std::string& url, const std::function<PublishedWeights(int64_t version)>& publish) {
  for (int published = 0;; ++published) {
    PublishedWeights weights;
    const auto give_newest = [&] { return give(url, weights = newest()); };
    const auto again = [](const Error& error) { return !is_damaged(error); };
    const auto given = net::retry<int64_t>("the newest weights on " + url, Deadline::after(kBringUpPatience),
                                           give_newest, {.again = again, .backoff = {.first_s = 0.2, .max_s = 2}});
    if (given.ok()) break;
    if (!is_damaged(given.error()) || published == kPublications) throw given.error();
    log::warn("{}; they are published again", given.error().what());
    publish_again(weights, publish);
  }
  // The router may be restarting itself; it is told of all engines when it comes back.
  const auto added = net::HttpClient().post_json(router_.url() + "/add_worker", {{"url", url}});
  if (!added.ok()) log::warn("router did not take {}: {}", url, added.error().what());
}

// A trainer that died trains its lost steps again, and comes to these weights or past them.
void Engines::publish_again(const PublishedWeights& damaged,
                            const std::function<PublishedWeights(int64_t version)>& publish) {
  const auto attempt = [&]() -> Result<int64_t> {
    if (newest().version != damaged.version) return damaged.version;  // newer ones came
    try {
      replace(damaged, publish(damaged.version));
      return damaged.version;
    } catch (const RolledBack& back) {
      return Error(back);
    }
  };
  net::retry<int64_t>(fmt::format("the trainer to have weights {} again", damaged.version),
                      Deadline::after(kRolePatience), attempt, {.backoff = {.first_s = 0.2, .max_s = 2}})
      .value();
}

// Unless others were installed meanwhile.
void Engines::replace(const PublishedWeights& old, PublishedWeights fresh) {
  std::lock_guard lock(mutex_);
  if (weights_.version == old.version) weights_ = std::move(fresh);
}

void Engines::bring_up_router(bool restarted) const {
  send_barrier(/*patience_s=*/0);
  net::HttpClient client;
  const auto add = [&](const std::string& url) {
    client.post_json(router_.url() + "/add_worker", {{"url", url}}).value();
  };
  for (const std::string& url : external_) add(url);
  if (!restarted) return;  // ours add themselves once they are up
  for (const Role& engine : own_) add(engine.url());
}

Verdict Evaluator::judge(const Problem& problem, const std::string& candidate, uint64_t seed,
                         const EvaluationOptions& options) const {
  constexpr double kTimeout = 600;
  return verdict_from_json(role_.post(
      "/v2/evaluations", rollout::evaluation_request(problem.id, problem.source, candidate, seed, options), kTimeout));
}

}  // namespace tritonforge::orchestrate
