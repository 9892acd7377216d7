#include "evaluate/server.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <thread>

#include "base/options_json.h"
#include "evaluate/languages/language.h"
#include "net/retry.h"
#include "router/status.h"

namespace tritonforge::evaluate {
namespace {

EvaluationRequest legacy_request(const Json& body) {
  constexpr std::string_view where = "POST /eval";
  // The original's clients may send more fields than it reads; they are not refused here either.
  if (!body.is_object()) fail(ErrorKind::kUsage, "{}: the body is not a JSON object", where);
  EvaluationRequest request;
  request.problem_source = require<std::string>(body, "original_model_src", where);
  request.candidate = require<std::string>(body, "custom_model_src", where);
  request.seed = optional_field<uint64_t>(body, "seed_num", 42, where);
  request.num_correct_trials = optional_field<int64_t>(body, "num_correct_trials", 5, where);
  request.num_perf_trials = optional_field<int64_t>(body, "num_perf_trials", 100, where);
  request.measure_performance = optional_field<bool>(body, "measure_performance", true, where);
  request.backend = from_name<Backend>(optional_field<std::string>(body, "backend", "triton", where), "backend");
  request.timeout_s = 600;
  check_options<EvaluationOptions>(request);
  return request;
}

EvaluationRequest request_from_json(const Json& body, std::string_view where) {
  EvaluationRequest request;
  EvaluationOptions& options = request;
  auto known = options_of(options).names();
  known.insert(known.end(), {"problem", "candidate", "seed"});
  check_keys(body, known, where);
  const auto problem = require<Json>(body, "problem", where);
  if (!problem.is_object()) fail(ErrorKind::kUsage, "{}: field 'problem' is not an object", where);
  check_keys(problem, {"id", "source"}, fmt::format("{}: problem", where));
  request.problem_id = optional_field<std::string>(problem, "id", "", where);
  request.problem_source = require<std::string>(problem, "source", where);
  request.candidate = require<std::string>(body, "candidate", where);
  request.seed = optional_field<uint64_t>(body, "seed", request.seed, where);
  Json judged = body;  // what is left of it are options
  for (const char* field : {"problem", "candidate", "seed"}) judged.erase(field);
  read_options_json(judged, std::string(where), options);
  return request;
}

// Two sources in JSON: as much as a client may make this server hold.
constexpr size_t kMaxRequest = 64 << 20;

net::ServerOptions bounded(net::ServerOptions options) {
  options.max_body = std::min(options.max_body, kMaxRequest);
  return options;
}

size_t device_id(const std::string& text) {
  size_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::kUsage, "POST /reset_gpu/{}: the id is no number", text);
  return id;
}

}  // namespace

EvaluationRequest evaluation_request_from_json(const Json& body, bool legacy) {
  return legacy ? legacy_request(body) : request_from_json(body, "POST /v2/evaluations");
}

EvaluationRequest problem_request_from_json(Json body) {
  constexpr std::string_view where = "POST /v2/problems";
  if (body.is_object() && body.contains("candidate"))
    fail(ErrorKind::kUsage, "{}: a problem has no 'candidate'", where);
  if (body.is_object()) body["candidate"] = "";
  return request_from_json(body, where);
}

struct EvaluatorServer::Impl {
  Impl(Evaluator& evaluator, net::ServerOptions options, const router::Router* compile_servers)
      : evaluator(evaluator), compile_servers(compile_servers), server(bounded(std::move(options))) {}
  Evaluator& evaluator;
  const router::Router* compile_servers;
  net::HttpServer server;
  net::Metrics metrics{"evaluator",
                       {{"evaluations_total", "verdicts given"},
                        {"evaluations_stage_total", "verdicts by the stage that the candidate reached"},
                        {"abandoned_total", "evaluations that ended because their client left"},
                        {"evaluations_cheated_total", "verdicts with a flag that is a cheat"},
                        {"evaluation_seconds_total", "wall seconds of the evaluations, waiting included"},
                        {"evaluation_part_seconds_total", "the same, by what took them"},
                        {"busy", "evaluations under way"},
                        {"busy_seconds_total", "seconds that workers were busy, all together"},
                        {"waiting", "evaluations that wait for a worker"},
                        {"workers", "evaluations that may be under way at once"},
                        {"reference_processes", "live processes that hold a problem's reference"},
                        {"zygote_restarts_total", "times that the Python parent was started again"},
                        {"verdict_cache_hits_total", "evaluations answered by an earlier verdict"},
                        {"reference_cache_hits_total", "evaluations whose expected outputs were there"},
                        {"references_asked_total", "times that a problem's module was run for its expected outputs"},
                        {"compile_cache_hits_total", "kernels that were lowered before"},
                        {"compile_cache_misses_total", "kernels that were lowered"}}};

  net::Response evaluate(const net::Request& http, bool legacy) {
    const EvaluationRequest request = evaluation_request_from_json(http.json(), legacy);
    const Verdict verdict = evaluator.evaluate(request, {http.deadline, http.left});
    metrics.add("evaluations_total");
    metrics.add(fmt::format("evaluations_stage_total{{stage=\"{}\"}}", name_of(verdict.stage)));
    if (verdict.cheated()) metrics.add("evaluations_cheated_total");
    metrics.add("evaluation_seconds_total", verdict.wall_s);
    for (const auto& [part, seconds] : verdict.seconds)
      metrics.add(fmt::format("evaluation_part_seconds_total{{part=\"{}\"}}", part), seconds);
    return net::Response::json(legacy ? to_kernel_exec_result(verdict) : to_json(verdict));
  }

  net::Response prepare(const net::Request& http) {
    const bool accepted = evaluator.prepare(problem_request_from_json(http.json()));
    return net::Response::json({{"accepted", accepted}}, 202);
  }

  // What went wrong is also where the original's server, FastAPI, has it.
  net::Response legacy_evaluate(const net::Request& http) {
    try {
      return evaluate(http, /*legacy=*/true);
    } catch (const std::exception& error) {
      return net::Response::error(error, {{"detail", error.what()}});
    }
  }

  net::Response health() {
    Json report = evaluator.health();
    if (compile_servers) report["compile_servers"] = router::describe(compile_servers->registry());
    const bool whole = report.at("breaches").empty() && report.at("not_enforced").empty();
    return net::health_reply(whole ? net::Colour::kGreen : net::Colour::kYellow, "evaluator",
                             fmt::format("{} of {} workers busy, {} waiting{}", report.at("busy").get<int>(),
                                         report.at("workers").get<int>(), report.at("waiting").get<int>(),
                                         whole ? "" : "; the sandbox does not hold: breaches, not_enforced"),
                             report);
  }

  net::Response metrics_text() {
    const Json report = evaluator.health();
    for (const char* name : {"busy", "waiting", "workers", "reference_processes"})
      metrics.set(name, report.at(name).get<double>());
    for (const char* name :
         {"abandoned", "busy_seconds", "zygote_restarts", "verdict_cache_hits", "reference_cache_hits",
          "references_asked", "compile_cache_hits", "compile_cache_misses"}) {
      metrics.set(std::string(name) + "_total", report.at(name).get<double>());
    }
    return metrics.reply();
  }

  Json devices() {
    const Json report = evaluator.health();
    if (evaluator.options().mode != EvaluationMode::kLive)
      return {{"mode", report.at("mode")}, {"devices", report.at("devices")}};
    // Candidates run there in processes of their own; nothing probes it.
    return {{"mode", report.at("mode")},
            {"devices", {{{"id", 0}, {"device", "cuda:0"}, {"state", "not probed"}, {"busy", report.at("busy")}}}}};
  }

  net::Response reset(const std::vector<size_t>& ids) {
    for (const size_t id : ids) evaluator.reset_device(id);
    return net::Response::json({{"status", "ok"}, {"message", "probed before the next job"}});
  }

  Json fault_statistics() const {
    const Json report = evaluator.health();
    Json per_device = Json::object();
    uint64_t total = 0;
    for (const Json& device : report.at("devices")) {
      per_device[device.at("uuid").get<std::string>()] = device.at("fault_count");
      total += device.at("fault_count").get<uint64_t>();
    }
    return {{"faults", report.at("faults")},
            {"evaluated", report.at("evaluated")},
            {"zygote_restarts", report.at("zygote_restarts")},
            {"per_device_faults", std::move(per_device)},
            {"total_faults", total}};
  }
};

EvaluatorServer::EvaluatorServer(Evaluator& evaluator, net::ServerOptions options,
                                 const router::Router* compile_servers)
    : impl_(std::make_unique<Impl>(evaluator, std::move(options), compile_servers)) {
  Impl& impl = *impl_;
  auto& server = impl.server;
  server.route("POST", "/v2/evaluations",
               [&impl](const net::Request& request) { return impl.evaluate(request, false); });
  server.route("POST", "/v2/problems", [&impl](const net::Request& request) { return impl.prepare(request); });
  server.route("POST", "/eval", [&impl](const net::Request& request) { return impl.legacy_evaluate(request); });
  // Answered on the I/O thread: it must come while every worker waits for a verdict.
  server.route_async("GET", "/health",
                     [&impl](const net::Request&, net::ResponderPtr reply) { reply->send(impl.health()); });
  server.route_async("GET", "/metrics",
                     [&impl](const net::Request&, net::ResponderPtr reply) { reply->send(impl.metrics_text()); });
  server.route_async("GET", "/", [&impl](const net::Request&, net::ResponderPtr reply) {
    reply->send(net::Response::json({{"service", "tritonforge evaluator"},
                                     {"mode", name_of(impl.evaluator.options().mode)},
                                     {"endpoints",
                                      {"/eval", "/v2/evaluations", "/v2/problems", "/health", "/metrics", "/gpu_status",
                                       "/backend_info", "/fault_statistics"}}}));
  });
  for (const char* path : {"/gpu_status", "/status"}) {  // the second: of the original's simple server
    server.route_async("GET", path, [&impl](const net::Request&, net::ResponderPtr reply) {
      reply->send(net::Response::json(impl.devices()));
    });
  }
  server.route_async("GET", "/backend_info", [&impl](const net::Request&, net::ResponderPtr reply) {
    const Refusals refusals = impl.evaluator.refusals();
    reply->send(net::Response::json({{"backends", usable_languages(refusals)},
                                     {"refused", refusals.json()},
                                     {"mode", name_of(impl.evaluator.options().mode)},
                                     {"targets", usable_targets(refusals)},
                                     {"versions", impl.evaluator.health()["versions"]}}));
  });
  server.route_async("GET", "/fault_statistics", [&impl](const net::Request&, net::ResponderPtr reply) {
    reply->send(net::Response::json(impl.fault_statistics()));
  });
  server.route("POST", "/reset_gpu/{id}",
               [&impl](const net::Request& request) { return impl.reset({device_id(request.parameters.at("id"))}); });
  server.route("POST", "/reset_devices", [&impl](const net::Request&) {
    std::vector<size_t> all(impl.evaluator.health().at("devices").size());
    std::iota(all.begin(), all.end(), size_t{0});
    return impl.reset(all);
  });
  // Children are disposable and hold nothing between evaluations; the call is kept for old clients.
  server.route("POST", "/cleanup", [](const net::Request&) {
    return net::Response::json({{"status", "ok"}, {"message", "every evaluation has its own processes"}});
  });
}
EvaluatorServer::~EvaluatorServer() = default;
void EvaluatorServer::start() { impl_->server.start(); }

// Whose client leaves has its candidate's process ended, and goes on with a problem's, which others may share: with the
// server nobody does.
void EvaluatorServer::stop(double grace_s) {
  const std::jthread cut([&](const std::stop_token& stopped) {
    if (net::pause(grace_s, stopped)) impl_->evaluator.end();
  });
  impl_->server.stop(grace_s);
}
std::string EvaluatorServer::url() const { return impl_->server.url(); }

}  // namespace tritonforge::evaluate
