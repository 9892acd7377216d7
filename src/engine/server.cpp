#include "engine/server.h"

#include <atomic>
#include <charconv>
#include <optional>

#include "base/job_queue.h"
#include "base/log.h"
#include "engine/control.h"
#include "engine/exchange.h"
#include "engine/report.h"
#include "engine/text_routes.h"
#include "engine/weight_routes.h"
#include "net/version_barrier.h"

namespace tritonforge::engine {
namespace {

using net::ResponderPtr;
using net::Response;
using HttpRequest = net::Request;

constexpr size_t kMaxWaitingRequests = 1024;  // read and not yet parsed
constexpr double kStopSeconds = 60;           // for the step that runs when the server is stopped

// The router's barrier: a request that is to be sampled from newer weights than these goes elsewhere, or comes again.
std::optional<Error> below_barrier(const HttpRequest& request, const Engine& engine) {
  const auto header = request.headers.find(net::kMinWeightVersion);
  if (header == request.headers.end()) return std::nullopt;
  const std::string& text = header->second;
  int64_t wanted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::kUsage, "{}: '{}' is not a version", net::kMinWeightVersion, text);
  const int64_t version = engine.stats().weight_version;
  if (version >= wanted) return std::nullopt;
  return Error(ErrorKind::kUnavailable,
               fmt::format("the weights here are version {}, version {} or newer is asked for", version, wanted));
}

}  // namespace

struct EngineServer::Impl {
  using Handler = void (Impl::*)(const HttpRequest&, const ResponderPtr&);
  Impl(Engine& the_engine, net::ServerOptions options);
  // On the job queue: requests that generate.
  // `refusal`: how an error is written.
  void on_jobs(
      const char* method, const char* path, Handler handler,
      Response (*refusal)(const std::exception&) = [](const std::exception& e) { return Response::error(e); });
  void generate(const HttpRequest& request, const ResponderPtr& responder);
  void chat_completions(const HttpRequest& request, const ResponderPtr& responder);
  void completions(const HttpRequest& request, const ResponderPtr& responder);
  void openai(const HttpRequest& request, const ResponderPtr& responder, bool chat);
  void health_generate(const HttpRequest& request, const ResponderPtr& responder);
  // At once, on an I/O thread: questions about the state.
  void at_once(const char* path, std::function<Response()> answer);
  Response model_info() const;
  Json model_card() const;
  std::string fresh_id(const HttpRequest& request) { return fmt::format("{}-{}", request.id, next_id++); }

  Engine& engine;
  tokenizer::ChatFormat format;
  std::string model_name;
  const int64_t started = static_cast<int64_t>(unix_seconds());
  std::atomic<uint64_t> next_id{1};
  std::atomic<bool> closing{false};
  net::HttpServer server;
  JobQueue jobs{1};  // after the server: its last jobs answer through it
};

EngineServer::Impl::Impl(Engine& the_engine, net::ServerOptions options)
    : engine(the_engine),
      format(tokenizer::recognise_chat_format(the_engine.tokenizer()->chat_template(), the_engine.info().model_path)),
      model_name(fs::path(the_engine.info().model_path).filename().string()),
      server(std::move(options)) {
  on_jobs("POST", "/generate", &Impl::generate);
  on_jobs("POST", "/v1/chat/completions", &Impl::chat_completions, openai_error);
  on_jobs("POST", "/v1/completions", &Impl::completions, openai_error);
  on_jobs("GET", "/health_generate", &Impl::health_generate);
  at_once("/health", [this] { return health_report(engine.stats(), engine.fault(), closing); });
  at_once("/metrics", [this] { return metrics_report(engine.stats()); });
  for (const char* path : {"/get_server_info", "/server_info"})
    at_once(path, [this] { return Response::json(server_report(engine.info(), engine.stats())); });
  for (const char* path : {"/get_model_info", "/model_info"}) at_once(path, [this] { return model_info(); });
  at_once("/get_weight_version",
          [this] { return Response::json({{"weight_version", std::to_string(engine.stats().weight_version)}}); });
  at_once("/v1/models", [this] { return Response::json({{"object", "list"}, {"data", Json::array({model_card()})}}); });
  server.route("GET", "/v1/models/{name}", [this](const HttpRequest& request) {
    const std::string& name = request.parameters.at("name");
    if (name == model_name) return Response::json(model_card());
    return openai_error(
        Error(ErrorKind::kNotFound, fmt::format("no model '{}'{}", name, nearest_hint(name, {model_name}))));
  });
  add_text_routes(server, engine, format);
  add_control_routes(server, engine);
  add_weight_routes(server, engine);
}

void EngineServer::Impl::at_once(const char* path, std::function<Response()> answer) {
  server.route_async("GET", path, [answer = std::move(answer)](const HttpRequest&, const ResponderPtr& responder) {
    responder->send(answer());
  });
}

void EngineServer::Impl::on_jobs(const char* method, const char* path, Handler handler,
                                 Response (*refusal)(const std::exception&)) {
  const auto launch = [this, handler, refusal](const HttpRequest& request, const ResponderPtr& responder) {
    const auto run = [this, handler, refusal, request, responder] {
      try {
        if (closing) fail(ErrorKind::kMachine, "the engine is shutting down");
        if (const auto below = below_barrier(request, engine)) {
          Response response = refusal(*below);
          // Who asks tells it from a failure.
          response.headers.emplace(net::kMinWeightVersion, request.headers.at(net::kMinWeightVersion));
          responder->send(std::move(response));
          return;
        }
        (this->*handler)(request, responder);
      } catch (const std::exception& error) {
        responder->send(refusal(error));
      }
    };
    if (jobs.queued() >= kMaxWaitingRequests || !jobs.submit(run)) {
      responder->send(refusal(Error(ErrorKind::kBusy, "too many requests wait to be read")));
    }
  };
  server.route_async(method, path, launch, net::Effect::kChanges);
}

void EngineServer::Impl::generate(const HttpRequest& request, const ResponderPtr& responder) {
  const Json json = request.json();  // given back once the request is on its way
  GenerateBody body = generate_from_json(json, *engine.tokenizer(), fresh_id(request));
  std::make_shared<GenerateExchange>(engine, jobs, responder, std::move(body))->launch(request.deadline);
}

void EngineServer::Impl::chat_completions(const HttpRequest& request, const ResponderPtr& responder) {
  openai(request, responder, /*chat=*/true);
}

void EngineServer::Impl::completions(const HttpRequest& request, const ResponderPtr& responder) {
  openai(request, responder, /*chat=*/false);
}

void EngineServer::Impl::openai(const HttpRequest& request, const ResponderPtr& responder, bool chat) {
  OpenAiRequest parsed = openai_from_json(request.body, chat, *engine.tokenizer(), format, model_name,
                                          fresh_id(request));
  std::make_shared<OpenAiExchange>(engine, jobs, responder, std::move(parsed))->launch(request.deadline);
}

void EngineServer::Impl::health_generate(const HttpRequest& request, const ResponderPtr& responder) {
  Request probe;
  probe.id = fmt::format("health-{}", next_id++);
  probe.prompt_ids = {0};
  probe.sampling.temperature = 0;
  probe.sampling.max_new_tokens = 1;
  probe.deadline = Deadline::after(std::min(20.0, request.deadline.remaining_s()));
  probe.on_output = [responder](const Output& output) {
    const Sample& sample = output.samples[0];
    if (sample.finish == FinishReason::kAbort)
      responder->send(Response::error(Error(ErrorKind::kMachine, "no token: " + sample.abort_message)));
    else responder->send(Response::json({{"status", "green"}, {"seconds", output.latency_s}}));
  };
  const auto accepted = engine.submit(std::move(probe));
  if (!accepted) throw accepted.error();
}

Response EngineServer::Impl::model_info() const {
  const EngineInfo& info = engine.info();
  return Response::json({{"model_path", info.model_path},
                         {"tokenizer_path", info.model_path},
                         {"is_generation", true},
                         {"family", info.family},
                         {"dtype", info.dtype},
                         {"vocab_size", info.vocab_size},
                         {"max_context", info.max_context},
                         {"weight_version", std::to_string(engine.stats().weight_version)}});
}

Json EngineServer::Impl::model_card() const {
  return {{"id", model_name},
          {"object", "model"},
          {"created", started},
          {"owned_by", "tritonforge"},
          {"max_model_len", engine.info().max_context}};
}

EngineServer::EngineServer(Engine& engine, net::ServerOptions options)
    : impl_(std::make_unique<Impl>(engine, std::move(options))) {}
EngineServer::~EngineServer() { stop(0); }
void EngineServer::start() { impl_->server.start(); }
std::string EngineServer::url() const { return impl_->server.url(); }

void EngineServer::stop(double grace_s) {
  if (impl_->closing.exchange(true)) return;
  const Deadline deadline = Deadline::after(kStopSeconds);
  bool drained = impl_->jobs.drain(deadline);  // from here on no job submits
  try {
    impl_->engine.abort_all("the engine is shutting down", deadline);
  } catch (const Error& error) {
    log::warn("stopping with requests unanswered: {}", error.what());
  }
  drained = drained && impl_->jobs.drain(deadline);  // the last outputs are on their way
  if (!drained) log::warn("stopping: replies were still being written after {:.0f} s", kStopSeconds);
  impl_->server.stop(grace_s);
}

}  // namespace tritonforge::engine
