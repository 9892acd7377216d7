#include "rollout/server.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "rollout/answer_queue.h"
#include "rollout/legacy.h"
#include "rollout/prompts.h"
#include "rollout/reward.h"
#include "rollout/turn_table.h"
#include "rollout/work_desk.h"

namespace tritonforge::rollout {
namespace {

constexpr double kMaxLeaseWait = 3600;

int64_t integer_query(const net::Request& request, const std::string& key, int64_t fallback, int64_t least,
                      int64_t most) {
  const auto found = request.query.find(key);
  if (found == request.query.end()) return fallback;
  try {
    size_t used = 0;
    const int64_t value = std::stoll(found->second, &used);
    if (used == found->second.size() && value >= least && value <= most) return value;
  } catch (const std::logic_error&) {
    // Falls through to the one message below.
  }
  fail(ErrorKind::kUsage, "{} {}: '{}' must be an integer from {} to {}, not '{}'", request.method, request.path, key,
       least, most, found->second);
}

net::Response text_reply(std::string json) {
  net::Response response;
  response.body = std::move(json);
  return response;
}

bool accepts(const net::Request& request, std::string_view type) {
  const auto accept = request.headers.find("accept");
  return accept != request.headers.end() && accept->second.find(type) != std::string::npos;
}

net::Response arrow_reply(const std::vector<Trajectory>& trajectories, const net::Request& request) {
  net::Response response;
  response.content_type = dataset::kArrowContentType;
  response.body = dataset::arrow_bytes(turn_table(trajectories), request.path);
  return response;
}

// The trainer asks for the sequences in binary, whoever wants much of it for Arrow; everybody else reads JSON.
net::Response lease_reply(const StoredLease& lease, const net::Request& request) {
  if (accepts(request, dataset::kArrowContentType)) {
    std::vector<Trajectory> all;
    for (const StoredGroup& group : lease.groups) std::ranges::move(trajectories_of(group), std::back_inserter(all));
    return arrow_reply(all, request);
  }
  if (!accepts(request, kSequencesContentType) && !accepts(request, "application/octet-stream"))
    return text_reply(text_of(lease));
  net::Response response;
  response.content_type = kSequencesContentType;
  response.body = to_binary(batch_of(lease));
  return response;
}

// A stored trajectory with what a reader of the page wants beside it.
Json trajectory_view(const Store::Row& row) {
  Json view = to_json(row.trajectory);
  view["created"] = row.created;
  view["group_reason"] = row.reason;
  view["problem_source"] = row.problem_source;
  for (Json& turn : view["turns"]) {
    turn["feedback"] = feedback_message(row.options.prompt, verdict_from_json(turn["verdict"])).content;
  }
  return view;
}

}  // namespace

struct BufferServer::Impl {
  Impl(RolloutService& the_service, net::ServerOptions options)
      : service(the_service), desk(service.pool(), service.store()), legacy(service), server(std::move(options)) {
    service.pool().on_submit([this] { desk.work_came(); });
    service.on_group_complete([this] {
      leases.look_again();
      legacy.groups_changed();
    });
    add_routes();
    legacy.add_routes(server);
  }
  ~Impl() {
    service.pool().on_submit(nullptr);
    service.join();
  }

  void add_routes() {
    server.route("POST", "/v2/rollouts", [this](const net::Request& r) { return start_rollouts(r.json()); });
    server.route_async("POST", "/v2/groups/lease", [this](const net::Request& r, net::ResponderPtr responder) {
      LeaseRequest request = lease_request_from_json(r.json());
      request.timeout_s = std::min(request.timeout_s, kMaxLeaseWait);
      const Deadline deadline = Deadline::after(std::min(request.timeout_s, r.deadline.remaining_s()));
      leases.ask([this, request = std::move(request),
                  waited_s = deadline.remaining_s()](const Deadline& until) { return lease(request, waited_s, until); },
                 deadline, std::move(responder));
    });
    server.route("GET", "/v2/leases/{id}", [this](const net::Request& r) {
      return lease_reply(service.store().leased(r.parameters.at("id")), r);
    });
    server.route("POST", "/v2/leases/{id}/commit", [this](const net::Request& r) {
      const auto step = require<int64_t>(r.json(), "step", "POST /v2/leases/{id}/commit");
      service.store().commit_lease(r.parameters.at("id"), step);
      return net::Response::json({{"lease_id", r.parameters.at("id")}, {"state", "committed"}, {"step", step}});
    });
    server.route("POST", "/v2/leases/{id}/release", [this](const net::Request& r) {
      service.store().release_lease(r.parameters.at("id"));
      leases.look_again();
      return net::Response::json({{"lease_id", r.parameters.at("id")}, {"state", "released"}});
    });
    server.route("POST", "/v2/leases/{id}/discard", [this](const net::Request& r) {
      service.store().discard_lease(r.parameters.at("id"));
      return net::Response::json({{"lease_id", r.parameters.at("id")}, {"state", "discarded"}});
    });
    add_generator_routes();
    server.route("GET", "/v2/status", [this](const net::Request&) { return status(); });
    server.route("GET", "/v2/progress", [this](const net::Request& r) {
      const auto prefix = r.query.find("groups");
      return net::Response::json(to_json(service.store().progress(prefix == r.query.end() ? "" : prefix->second)));
    });
    server.route("GET", "/v2/trajectories", [this](const net::Request& r) {
      const int64_t limit = integer_query(r, "limit", 20, 1, 1000);
      const auto after = r.query.find("after");
      const bool oldest_first = integer_query(r, "oldest_first", 0, 0, 1) != 0;
      auto rows = service.store().rows(limit, after == r.query.end() ? "" : after->second, oldest_first);
      if (accepts(r, dataset::kArrowContentType)) {
        std::vector<Trajectory> all;
        for (auto& row : rows) all.push_back(std::move(row.trajectory));
        return arrow_reply(all, r);
      }
      Json list = Json::array();
      for (const auto& row : rows) list.push_back(trajectory_view(row));
      return net::Response::json({{"trajectories", std::move(list)}});
    });
    server.route("GET", "/v2/problems", [this](const net::Request& r) {
      Json list = Json::array();
      for (const auto& problem : service.store().problems(integer_query(r, "limit", 100, 1, 100000))) {
        list.push_back({{"problem_id", problem.id},
                        {"trajectories", problem.trajectories},
                        {"failed", problem.failed},
                        {"correct", problem.correct},
                        {"mean_reward", problem.mean_reward},
                        {"best_speedup", problem.best_speedup},
                        {"last", problem.last}});
      }
      return net::Response::json({{"problems", std::move(list)}});
    });
    server.route("GET", "/v2/groups/{id}", [this](const net::Request& r) {
      return text_reply(service.store().group_text(r.parameters.at("id")));
    });
    server.route_async("GET", "/health",
                       [this](const net::Request&, net::ResponderPtr responder) { responder->send(health()); });
    server.route("GET", "/metrics", [this](const net::Request&) { return metrics(); });
  }

  std::optional<net::Response> lease(const LeaseRequest& request, double waited_s, const Deadline& until) {
    const auto answer = service.store().lease(request);
    if (answer.lease) return net::Response::json(to_json(lease_of(*answer.lease, request.samples)));
    if (!until.expired()) return std::nullopt;
    fail(ErrorKind::kTimeout, "lease {}: waited {:.0f} s: {}", request.lease_id, waited_s, answer.missing);
  }

  void add_generator_routes() {
    server.route_async("POST", "/v2/work", [this](const net::Request& r, net::ResponderPtr responder) {
      WorkRequest request = work_request_from_json(r.json());
      const Deadline deadline = Deadline::after(std::min(request.timeout_s, kMaxLeaseWait));
      desk.ask(std::move(request), deadline, std::move(responder));
    });
    server.route("POST", "/v2/samples", [this](const net::Request& r) {
      const auto type = r.headers.find("content-type");
      const bool binary = type != r.headers.end() && type->second == kTrajectoryContentType;
      const Trajectory trajectory = binary ? trajectory_from_bytes(r.body) : trajectory_from_json(r.json());
      service.deliver(trajectory);
      const auto from = r.headers.find("x-generator");
      if (from != r.headers.end()) desk.finished(from->second, trajectory.id);
      return net::Response::json({{"id", trajectory.id}});
    });
    server.route("POST", "/v2/turns", [this](const net::Request& r) {
      const std::string where = "POST /v2/turns";
      const Json body = r.json();
      const auto turn = turn_from_json(require<Json>(body, "turn", where), where);
      service.store().keep_turn(require<std::string>(body, "group_id", where), require<int64_t>(body, "sample", where),
                                require<int64_t>(body, "index", where), {turn, require<bool>(body, "judged", where)});
      return net::Response::json(Json::object());
    });
  }

  net::Response start_rollouts(const Json& body) {
    const std::string where = "POST /v2/rollouts";
    check_keys(body, {"groups", "options"}, where);
    const auto options = rollout_options_from_json(body.value("options", Json::object()), where + " options");
    Reward::named(options.reward);  // throws where there is none of that name
    std::vector<GroupSpec> groups;
    for (const Json& group : require<std::vector<Json>>(body, "groups", where))
      groups.push_back(group_spec_from_json(group, options, where + " groups"));
    const auto result = service.start_groups(groups);
    return net::Response::json({{"accepted", result.accepted}, {"known", result.known}});
  }

  net::Response status() {
    const auto counts = service.store().counts();
    const auto state = whole_state();
    return net::Response::json({{"groups", counts.groups},
                                {"trajectories", counts.trajectories},
                                {"stored_trajectories", counts.stored},
                                {"failed_trajectories", counts.failed},
                                {"turns", counts.turns},
                                {"correct_trajectories", counts.correct},
                                {"mean_reward", counts.mean_reward},
                                {"recent_mean_reward", counts.recent_mean_reward},
                                {"open_leases", counts.leases},
                                {"commits", counts.commits},
                                {"database_bytes", counts.bytes},
                                {"queued_samples", state.queued},
                                {"running_trajectories", state.running},
                                {"running_turns", state.generating + state.evaluating},
                                {"generating", state.generating},
                                {"evaluating", state.evaluating},
                                {"failed_turns", state.failed_turns},
                                {"sampled_tokens", state.sampled_tokens},
                                {"generators", desk.totals().workers},
                                {"unwritten", state.unwritten},
                                {"write_error", state.write_error},
                                {"refused_key", state.refused_key},
                                {"waiting_leases", leases.waiting()}});
  }

  // Reads only counters: it answers while the store is busy.
  net::Response health() {
    const auto state = whole_state();
    const std::string counts = fmt::format("{} trajectories running, {} waiting", state.running, state.queued);
    const std::string trouble = !state.write_error.empty()
                                    ? fmt::format("{} finished trajectories wait for the disk: {}", state.unwritten,
                                                  state.write_error)
                                : !state.refused_key.empty() ? fmt::format("{}; {}", counts, state.refused_key)
                                                             : "";
    // Yellow, not red: a supervisor must not restart what holds finished trajectories that the disk does not take.
    const bool green = trouble.empty() && !state.stopping;
    return net::health_reply(green ? net::Colour::kGreen : net::Colour::kYellow, "buffer",
                             trouble.empty() ? counts : trouble);
  }

  // With what generator processes are at.
  RolloutService::State whole_state() {
    auto state = service.state();
    const auto desk_totals = desk.totals();
    const ActivityCounts& others = desk_totals.activity;
    state.running += desk_totals.claimed;
    state.generating += others.generating;
    state.evaluating += others.evaluating;
    state.turns += others.turns;
    state.failed_turns += others.failed_turns;
    state.sampled_tokens += others.sampled_tokens;
    if (state.refused_key.empty()) state.refused_key = desk_totals.refused_key;
    return state;
  }

  net::Response metrics() {
    const auto counts = service.store().counts();
    const auto state = whole_state();
    for (const auto& [name, count] : counts.groups)
      figures.set(fmt::format("groups{{state=\"{}\"}}", name), static_cast<double>(count));
    figures.set("trajectories", static_cast<double>(counts.trajectories));
    figures.set("stored_trajectories", static_cast<double>(counts.stored));
    figures.set("correct_trajectories", static_cast<double>(counts.correct));
    figures.set("mean_reward", counts.mean_reward);
    figures.set("recent_mean_reward", counts.recent_mean_reward);
    figures.set("open_leases", static_cast<double>(counts.leases));
    figures.set("commits", static_cast<double>(counts.commits));
    figures.set("database_bytes", static_cast<double>(counts.bytes));
    figures.set("queued_samples", static_cast<double>(state.queued));
    figures.set("running_trajectories", static_cast<double>(state.running));
    figures.set("generating", static_cast<double>(state.generating));
    figures.set("evaluating", static_cast<double>(state.evaluating));
    figures.set("turns_total", static_cast<double>(state.turns));
    figures.set("failed_turns_total", static_cast<double>(state.failed_turns));
    figures.set("sampled_tokens_total", static_cast<double>(state.sampled_tokens));
    figures.set("generators", static_cast<double>(desk.totals().workers));
    figures.set("unwritten", static_cast<double>(state.unwritten));
    return figures.reply();
  }

  RolloutService& service;
  AnswerQueue leases{[](const std::exception& error) { return net::Response::error(error); }};
  WorkDesk desk;
  Legacy legacy;
  net::Metrics figures{"buffer",
                       {{"groups", "groups in the database, by state"},
                        {"trajectories", "trajectories that were written and not discarded"},
                        {"stored_trajectories", "of those, the ones that retention has left"},
                        {"correct_trajectories", "of those, the ones with a correct turn"},
                        {"mean_reward", "mean reward of all trajectories that did not fail through us"},
                        {"recent_mean_reward", "the same among the last 256 trajectories"},
                        {"open_leases", "leases that are neither committed nor released"},
                        {"commits", "leases that are committed"},
                        {"database_bytes", "size of the database"},
                        {"queued_samples", "samples that wait to be begun"},
                        {"running_trajectories", "trajectories under way"},
                        {"generating", "turns that wait for the engine"},
                        {"evaluating", "turns that wait for the evaluator"},
                        {"turns_total", "turns that ended since the start"},
                        {"failed_turns_total", "of those, the ones that engine or evaluator failed"},
                        {"sampled_tokens_total", "tokens sampled since the start"},
                        {"generators", "generator processes that were heard of lately"},
                        {"unwritten", "finished trajectories that wait for the disk"}}};
  net::HttpServer server;  // last: its handlers use all of the above
};

BufferServer::BufferServer(RolloutService& service, net::ServerOptions options)
    : impl_(std::make_unique<Impl>(service, std::move(options))) {}
BufferServer::~BufferServer() { stop(0); }
void BufferServer::start() { impl_->server.start(); }
void BufferServer::stop(double grace_s) { impl_->server.stop(grace_s); }
std::string BufferServer::url() const { return impl_->server.url(); }

}  // namespace tritonforge::rollout
