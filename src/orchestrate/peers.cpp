#include "orchestrate/peers.h"

#include <algorithm>

#include "base/log.h"
#include "net/retry.h"
#include "net/wire.h"
#include "rollout/peers.h"

namespace tritonforge::orchestrate {
namespace {

constexpr double kRolePatience = 300;         // at least: a role may take so long to come back
constexpr double kTrainerPatience = 600;      // loading a model and its optimizer
constexpr double kGenerationPatience = 1800;  // of the slowest generation
constexpr double kLeaseRound = 30, kLeaseTimeout = 90;
constexpr double kInstallTimeout = 600;

// POST path and body of an update, in SGLang's names.
std::pair<std::string, Json> update_request(const PublishedWeights& weights) {
  const bool folder = fs::is_directory(weights.path);
  return {folder ? "/update_weights_from_disk" : "/update_weights_from_tensor",
          {{folder ? "model_path" : "path", weights.path.string()},
           {"weight_version", std::to_string(weights.version)},
           {"checksums", weights.checksums}}};
}

// Whether a worker answered the router's update and did not take it; one that could not be reached may come back.
bool refused(const Json& reply) {
  if (!reply.is_object()) return true;
  const Json error = reply.value("error", Json::object());
  const std::string type = error.is_object() ? error.value("type", "") : "";
  for (const ErrorKind passing : {ErrorKind::kUnavailable, ErrorKind::kBusy, ErrorKind::kTimeout}) {
    if (type == name_of(passing)) return false;
  }
  return reply.contains("error") || !reply.value("success", true);
}

// What the router says of its workers: {url: reply}.
Json workers_of(const net::Response& response, const std::string& where) {
  return require<Json>(parse_json(response.body, where), "workers", where);
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
  const auto check_process = [&] {
    if (request.restarts && restarts() != *request.restarts)
      fail(ErrorKind::kUnavailable, "{}: the process that was asked was restarted", what);
  };
  bool reached = false;
  const auto attempt = [&]() -> Result<net::Response> {
    check_process();
    auto reply = client_->request(request.method, url_ + request.path, request.body, request.content_type, &options);
    check_process();
    reached = reply.ok() ? reply->status != 503 && reply->status != 429
                         : reply.error().kind() != ErrorKind::kUnavailable;
    if (reached) return reply;
    supervisor_->wait_ready(name_, deadline);
    return reply.ok() ? net::error_of(*reply, what) : Error(reply.error().kind(), what + ": " + reply.error().what());
  };
  return net::retry<net::Response>(what, deadline, attempt, {.again = [&](const Error&) { return !reached; }}).value();
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

Lease Buffer::lease(LeaseRequest request) const {
  request.timeout_s = kLeaseRound;
  const Deadline deadline = Deadline::after(kGenerationPatience);
  while (true) {
    try {
      return lease_from_json(role_.post("/v2/groups/lease", to_json(request), kLeaseTimeout));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || deadline.expired()) throw;
    }
    role_.check_all();  // the groups wait for engines and evaluator, too
  }
}

void Buffer::commit(const std::string& lease_id, int64_t step) const {
  role_.post("/v2/leases/" + lease_id + "/commit", {{"step", step}}, 60);
}

void Buffer::release(const std::string& lease_id) const {
  role_.post("/v2/leases/" + lease_id + "/release", Json::object(), 60);
}

TrainerStatus Trainer::status() {
  restarts_ = role_.restarts();  // before asking: a restart in between then shows in the next call
  return trainer_status_from_json(role_.ask({.method = "GET", .path = "/status"}));
}

StepOutcome Trainer::step(const StepRequest& request) {
  Role::Request message{.path = "/step", .timeout_s = 3600, .restarts = restarts_};
  if (request.kind == StepKind::kSft) {
    message.content_type = kSequencesContentType;
    message.body = to_binary({.step = request.step, .sequences = request.sequences});
  } else {
    message.body = to_json(request).dump();
  }
  try {
    return step_result_from_json(role_.ask(message));
  } catch (const Error& error) {
    if (role_.restarts() == restarts_) throw;
    role_.wait_ready(Deadline::after(kTrainerPatience));
    return RolledBack{status().step + 1, error.what()};
  }
}

Json Trainer::ask(const std::string& path, const Json& body, double timeout_s) const {
  return role_.ask({.path = path, .body = body.dump(), .timeout_s = timeout_s, .restarts = restarts_});
}

PublishedWeights Trainer::publish(int64_t version) const {
  return published_weights_from_json(ask("/publish_weights", {{"version", version}, {"to", "shm"}}, 600));
}

int64_t Trainer::save() const {
  return require<int64_t>(ask("/save", Json::object(), 1800), "step", "the trainer's reply to POST /save");
}

void Trainer::export_model(const fs::path& folder) const { ask("/export", {{"folder", folder.string()}}, 1800); }

std::vector<InstalledWeights> Engines::install(const PublishedWeights& weights) {
  {
    std::lock_guard lock(mutex_);
    weights_ = weights;
  }
  const auto [path, body] = update_request(weights);
  const std::string what = fmt::format("weights version {} on every engine", weights.version);
  const auto attempt = [&, &path = path, &body = body]() -> Result<std::vector<InstalledWeights>> {
    const net::Response reply = router_.exchange({.path = path, .body = body.dump(), .timeout_s = kInstallTimeout});
    if (reply.status != 200 && reply.status != 502) return net::error_of(reply, what);
    std::vector<InstalledWeights> installed;
    const Json workers = workers_of(reply, what);
    for (const auto& [url, answer] : workers.items()) {
      if (refused(answer))
        return Error(ErrorKind::kCorrupt, fmt::format("{} refuses {}: {}", url, what, answer.dump()));
      if (reply.status == 200) installed.push_back(installed_weights_from_json(url, answer));
    }
    if (reply.status != 200) return net::error_of(reply, what);  // one was down: it gets them when it comes back
    for (const InstalledWeights& each : installed) check_installed(each, weights);
    return installed;
  };
  return net::retry<std::vector<InstalledWeights>>(what, Deadline::after(kInstallTimeout), attempt).value();
}

void Engines::bring_up(const std::string& url) {
  PublishedWeights weights;
  {
    std::lock_guard lock(mutex_);
    weights = weights_;
  }
  net::HttpClient client({.timeout_s = kInstallTimeout});
  if (!weights.path.empty()) {
    const auto [path, body] = update_request(weights);
    check_installed(installed_weights_from_json(url, client.post_json(url + path, body).value()), weights);
  }
  // The router may be restarting itself; it is told of all engines when it comes back.
  const auto added = client.post_json(router_.url() + "/add_worker", {{"url", url}});
  if (!added.ok()) log::warn("router did not take {}: {}", url, added.error().what());
}

void Engines::register_all() const {
  net::HttpClient client;
  for (const auto& url : urls_) client.post_json(router_.url() + "/add_worker", {{"url", url}}).value();
}

Verdict Evaluator::judge(const Problem& problem, const std::string& candidate, uint64_t seed,
                         const EvaluationOptions& options) const {
  constexpr double kTimeout = 600;
  return verdict_from_json(role_.post(
      "/v2/evaluations", rollout::evaluation_request(problem.id, problem.source, candidate, seed, options), kTimeout));
}

}  // namespace tritonforge::orchestrate
