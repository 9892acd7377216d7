#include "evaluate/compile_server.h"

#include "evaluate/self_test.h"
#include "evaluate/zygote.h"
#include "net/wire.h"
#include "router/ask.h"

namespace tritonforge::evaluate {
namespace {

constexpr std::string_view kPath = "/v2/lowerings";
constexpr size_t kMaxRequest = 64 << 20;

net::ServerOptions bounded(net::ServerOptions options) {
  options.max_body = std::min(options.max_body, kMaxRequest);
  return options;
}

}  // namespace

struct CompileServer::Impl {
  Impl(const EvaluatorOptions& options, net::ServerOptions http)
      : zygote({.python = options.python, .records = false}),
        refusals(Refusals(zygote.missing()).without("mode live")),
        lowering(zygote, options.compile_timeout_s),
        server(bounded(std::move(http))) {
    test = test_sandbox(zygote, false, Deadline::after(60));
    require_strict(options.sandbox, test);
  }

  net::Response lower(const net::Request& http) {
    const std::string where = fmt::format("POST {}", kPath);
    const Json body = http.json();
    check_keys(body, {"language", "text", "target", "options", "binary"}, where);
    const auto backend = from_name<Backend>(require<std::string>(body, "language", where), "language");
    const auto target = require<std::string>(body, "target", where);
    const Lowered lowered = lowering.lower(
        compiled_language(backend, refusals), require<std::string>(body, "text", where), target,
        require<Json>(body, "options", where), http.deadline, optional_field<bool>(body, "binary", false, where));
    metrics.add(fmt::format("lowerings_total{{ok=\"{}\"}}", lowered.ok));
    const Json told = {{"ok", lowered.ok}, {"error", lowered.error}, {"shape", lowered.shape}};
    net::Response reply{.body = told.dump(-1, ' ', true), .content_type = "application/octet-stream"};
    if (lowered.binary) {
      reply.body += '\n';
      reply.body.append(reinterpret_cast<const char*>(lowered.binary->data()), lowered.binary->size());
    }
    return reply;
  }

  net::Response health() {
    return net::health_reply(test.holds() ? net::Colour::kGreen : net::Colour::kYellow, "evaluator",
                             fmt::format("compiles; {} kernels lowered{}", lowering.misses(),
                                         test.holds() ? "" : "; the sandbox does not hold"),
                             {{"role", "compile"},
                              {"sandbox", test.layers},
                              {"breaches", test.breaches},
                              {"refused", refusals.json()},
                              {"compile_cache_hits", lowering.hits()},
                              {"compile_cache_misses", lowering.misses()},
                              {"zygote_restarts", zygote.restarts()}});
  }

  Zygote zygote;
  const Refusals refusals;
  LoweringPool lowering;
  SelfTest test;
  net::Metrics metrics{"evaluator", {{"lowerings_total", "kernels asked for, by outcome"}}};
  net::HttpServer server;
};

CompileServer::CompileServer(const EvaluatorOptions& options, net::ServerOptions http)
    : impl_(std::make_unique<Impl>(options, std::move(http))) {
  Impl& impl = *impl_;
  impl.server.route("POST", std::string(kPath), [&impl](const net::Request& request) { return impl.lower(request); });
  impl.server.route_async("GET", "/health",
                          [&impl](const net::Request&, net::ResponderPtr reply) { reply->send(impl.health()); });
  impl.server.route_async("GET", "/metrics",
                          [&impl](const net::Request&, net::ResponderPtr reply) { reply->send(impl.metrics.reply()); });
}
CompileServer::~CompileServer() = default;
void CompileServer::start() { impl_->server.start(); }
void CompileServer::stop(double grace_s) { impl_->server.stop(grace_s); }
std::string CompileServer::url() const { return impl_->server.url(); }
Refusals CompileServer::refusals() const { return impl_->refusals; }

LoweringPool::Elsewhere compile_at(router::Router& servers) {
  return [&servers](const Language& language, const std::string& text, const std::string& target, const Json& options,
                    Deadline deadline, bool with_binary) {
    net::Request request{.method = "POST", .path = std::string(kPath), .target = std::string(kPath)};
    request.headers["content-type"] = "application/json";
    request.body = Json{
        {"language", language.name()},
        {"text", text},
        {"target", target},
        {"options", options},
        {"binary",
         with_binary}}.dump(-1, ' ', true, Json::error_handler_t::replace);
    request.deadline = deadline;
    const net::Response reply = router::ask(servers, request);
    // Whatever a compile server cannot do now is no fault of the kernel's.
    if (reply.status != 200)
      fail(ErrorKind::kUnavailable, "evaluator: no compile server: {}",
           net::error_of(reply, fmt::format("POST {}", kPath)).what());
    const size_t line = std::min(reply.body.find('\n'), reply.body.size());
    const Json told = parse_json(reply.body.substr(0, line), "a compile server's reply");
    Lowered lowered{.ok = require<bool>(told, "ok", "a compile server's reply"),
                    .error = require<std::string>(told, "error", "a compile server's reply"),
                    .shape = told.value("shape", Json::object())};
    if (lowered.ok && with_binary) {
      const auto bytes = std::as_bytes(std::span(reply.body)).subspan(std::min(line + 1, reply.body.size()));
      lowered.binary = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    }
    return lowered;
  };
}

}  // namespace tritonforge::evaluate
