#include "engine/server.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "engine/openai.h"
#include "engine/wire.h"

namespace tritonforge::engine {
namespace {

using HttpRequest = net::Request;
using net::ResponderPtr;
using net::Response;

// Runs jobs in order on one thread.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  void post(std::function<void()> job) {
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }
  // Returns once every job posted so far has run.
  void drain() {
    std::promise<void> reached;
    post([&reached] { reached.set_value(); });
    reached.get_future().wait();
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

// A full queue is 429, so that a client can tell "later" from "broken".
Response error_reply(const Error& error) {
  Response response = Response::error(error);
  if (error.kind() == ErrorKind::kUnavailable) {
    response.status = 429;
    response.headers["retry-after"] = "1";
  }
  return response;
}

void guarded(const ResponderPtr& responder, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    responder->send(error_reply(error));
  } catch (const std::exception& error) {
    responder->send(Response::error(Error(ErrorKind::kInternal, error.what())));
  }
}

int64_t version_of(const Json& body, const std::string& where) {
  const auto found = body.find("weight_version");
  if (found == body.end() || found->is_null()) return -1;
  if (found->is_number_integer() && found->get<int64_t>() >= 0) return found->get<int64_t>();
  const std::string text = found->is_string() ? found->get<std::string>() : "";
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) {
    fail(ErrorKind::kUsage, "{}: field 'weight_version' must be a number of 0 or more, as text or number", where);
  }
  return std::stoll(text);
}

// One HTTP exchange over several engine requests. Lives on the worker's thread.
struct Exchange {
  ResponderPtr responder;
  std::vector<Output> latest;
  size_t unfinished = 0;
  bool stream = false, closed = false;
  std::function<std::vector<Json>(size_t index)> chunks;  // what latest[index] adds to the stream
  std::function<Json()> reply;
  std::function<std::vector<Json>()> last_chunks;
};

}  // namespace

struct EngineServer::Impl {
  Impl(Engine& the_engine, net::ServerOptions options);
  void add_routes();
  void add_control_routes();
  void generate(const HttpRequest& request, const ResponderPtr& responder);
  void openai(const HttpRequest& request, const ResponderPtr& responder, bool chat);
  void health_generate(const HttpRequest& request, const ResponderPtr& responder);
  void launch(std::vector<Request> requests, const std::shared_ptr<Exchange>& exchange, Deadline deadline);
  void advance(const std::shared_ptr<Exchange>& exchange, size_t index, Output output,
               const std::vector<std::string>& ids);
  Response update_weights(const HttpRequest& request, const char* path_field);
  Response health() const;
  Json server_info() const;
  Response metrics() const;
  void async(const std::string& method, const std::string& path,
             void (Impl::*handler)(const HttpRequest&, const ResponderPtr&));

  Engine& engine;
  tokenizer::ChatFormat format;
  std::string model_name;
  std::atomic<uint64_t> next_id{1};
  std::atomic<bool> closing{false};
  net::HttpServer server;
  Worker worker;  // after the server: its last jobs answer through it
};

EngineServer::Impl::Impl(Engine& the_engine, net::ServerOptions options)
    : engine(the_engine),
      format(tokenizer::recognise_chat_format(the_engine.tokenizer()->chat_template(), the_engine.info().model_path)),
      model_name(fs::path(the_engine.info().model_path).filename().string()),
      server(std::move(options)) {
  add_routes();
  add_control_routes();
}

void EngineServer::Impl::async(const std::string& method, const std::string& path,
                               void (Impl::*handler)(const HttpRequest&, const ResponderPtr&)) {
  server.route_async(method, path, [this, handler](const HttpRequest& request, ResponderPtr responder) {
    worker.post(
        [this, handler, request, responder] { guarded(responder, [&] { (this->*handler)(request, responder); }); });
  });
}

void EngineServer::Impl::add_routes() {
  async("POST", "/generate", &Impl::generate);
  async("GET", "/health_generate", &Impl::health_generate);
  server.route_async("POST", "/v1/chat/completions", [this](const HttpRequest& request, ResponderPtr responder) {
    worker.post([=, this] { guarded(responder, [&] { openai(request, responder, /*chat=*/true); }); });
  });
  server.route_async("POST", "/v1/completions", [this](const HttpRequest& request, ResponderPtr responder) {
    worker.post([=, this] { guarded(responder, [&] { openai(request, responder, /*chat=*/false); }); });
  });
  server.route_async("GET", "/health",
                     [this](const HttpRequest&, ResponderPtr responder) { responder->send(health()); });
  server.route_async("GET", "/metrics",
                     [this](const HttpRequest&, ResponderPtr responder) { responder->send(metrics()); });
  server.route_async("GET", "/get_server_info", [this](const HttpRequest&, ResponderPtr responder) {
    responder->send(Response::json(server_info()));
  });
  server.route_async("GET", "/get_model_info", [this](const HttpRequest&, ResponderPtr responder) {
    const EngineInfo& info = engine.info();
    responder->send(Response::json({{"model_path", info.model_path},
                                    {"tokenizer_path", info.model_path},
                                    {"is_generation", true},
                                    {"family", info.family},
                                    {"dtype", info.dtype},
                                    {"vocab_size", info.vocab_size},
                                    {"max_context", info.max_context},
                                    {"weight_version", std::to_string(engine.stats().weight_version)}}));
  });
  server.route_async("GET", "/get_weight_version", [this](const HttpRequest&, ResponderPtr responder) {
    responder->send(Response::json({{"weight_version", std::to_string(engine.stats().weight_version)}}));
  });
  server.route_async("GET", "/v1/models", [this](const HttpRequest&, ResponderPtr responder) {
    responder->send(Response::json({{"object", "list"},
                                    {"data", Json::array({{{"id", model_name},
                                                           {"object", "model"},
                                                           {"owned_by", "tritonforge"},
                                                           {"max_model_len", engine.info().max_context}}})}}));
  });
}

// SGLang's "tags": what is released. Without them the KV cache, the only thing that can be.
static void check_memory_tags(const HttpRequest& request) {
  if (request.body.empty()) return;
  for (const auto& tag : optional_field(request.json(), "tags", std::vector<std::string>{}, "POST " + request.path)) {
    if (tag != "kv_cache")
      fail(ErrorKind::kUnsupported, "POST {}: tag '{}' (only kv_cache can be released)", request.path, tag);
  }
}

void EngineServer::Impl::add_control_routes() {
  server.route("POST", "/pause_generation", [this](const HttpRequest& request) {
    const Json body = request.json();
    const auto mode = optional_field<std::string>(body, "mode", "retain", "POST /pause_generation");
    if (mode != "retain" && mode != "in_place" && mode != "abort") {
      fail(ErrorKind::kUsage, "POST /pause_generation: mode '{}'{}", mode, nearest_hint(mode, {"retain", "abort"}));
    }
    engine.pause();
    if (mode == "abort") engine.abort_all("generation was paused");
    return Response::json({{"success", true}, {"message", "paused"}});
  });
  server.route("POST", "/continue_generation", [this](const HttpRequest&) {
    engine.resume();
    return Response::json({{"success", true}, {"message", "continued"}});
  });
  server.route("POST", "/abort_request", [this](const HttpRequest& request) {
    const Json body = request.json();
    if (optional_field(body, "abort_all", false, "POST /abort_request")) engine.abort_all("aborted by request");
    else engine.abort(require<std::string>(body, "rid", "POST /abort_request"));
    return Response::json({{"success", true}});
  });
  for (const char* method : {"GET", "POST"}) {
    server.route(method, "/flush_cache", [this](const HttpRequest&) {
      engine.flush_cache();
      return Response::json({{"success", true}, {"message", "cache flushed"}});
    });
  }
  server.route("POST", "/release_memory_occupation", [this](const HttpRequest& request) {
    check_memory_tags(request);
    engine.release_memory();
    return Response::json({{"success", true}, {"message", "the KV cache's memory is released"}});
  });
  server.route("POST", "/resume_memory_occupation", [this](const HttpRequest& request) {
    check_memory_tags(request);
    engine.resume_memory();
    return Response::json({{"success", true}, {"message", "the KV cache is there again"}});
  });
  server.route("POST", "/update_weights_from_disk",
               [this](const HttpRequest& request) { return update_weights(request, "model_path"); });
  server.route("POST", "/update_weights_from_tensor",
               [this](const HttpRequest& request) { return update_weights(request, "path"); });
}

Response EngineServer::Impl::update_weights(const HttpRequest& request, const char* path_field) {
  const std::string where = "POST " + request.path;
  const Json body = request.json();
  const auto path = require<std::string>(body, path_field, where);
  const auto checksums = optional_field(body, "checksums", std::map<std::string, std::string>{}, where);
  auto installed = engine.update_weights(path, version_of(body, where), checksums);
  if (!installed) {
    log::warn("{}: {}", where, installed.error().what());
    return Response::error(installed.error(), {{"success", false},
                                               {"message", installed.error().what()},
                                               {"weight_version", std::to_string(engine.stats().weight_version)}});
  }
  return Response::json({{"success", true},
                         {"message", ""},
                         {"weight_version", std::to_string(installed->version)},
                         {"checksums", installed->checksums},
                         {"num_paused_requests", 0}});
}

void EngineServer::Impl::launch(std::vector<Request> requests, const std::shared_ptr<Exchange>& exchange,
                                Deadline deadline) {
  if (closing) fail(ErrorKind::kMachine, "the engine is shutting down");
  exchange->latest.resize(requests.size());
  exchange->unfinished = requests.size();
  auto ids = std::make_shared<std::vector<std::string>>();
  for (const auto& request : requests) ids->push_back(request.id);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].deadline = deadline;
    requests[i].on_output = [this, exchange, i, ids](Output output) {
      worker.post([=, this, output = std::move(output)]() mutable { advance(exchange, i, std::move(output), *ids); });
    };
    auto accepted = engine.submit(std::move(requests[i]));
    if (accepted) continue;
    exchange->closed = true;  // the samples submitted so far end quietly
    for (size_t earlier = 0; earlier < i; ++earlier) engine.abort((*ids)[earlier]);
    throw accepted.error();
  }
  if (exchange->stream) exchange->responder->begin_stream(200, "text/event-stream", {{"cache-control", "no-cache"}});
  exchange->responder->on_disconnect([this, ids] {
    for (const auto& id : *ids) engine.abort(id, "the client went away");
  });
}

void EngineServer::Impl::advance(const std::shared_ptr<Exchange>& exchange, size_t index, Output output,
                                 const std::vector<std::string>& ids) {
  if (exchange->closed) return;
  if (output.finished) --exchange->unfinished;
  exchange->latest[index] = std::move(output);
  const auto write = [&](const Json& chunk) {
    if (exchange->responder->write(net::sse_event(chunk.dump()))) return true;
    exchange->closed = true;
    for (const auto& id : ids) engine.abort(id, "the client went away");
    return false;
  };
  if (exchange->stream) {
    for (const Json& chunk : exchange->chunks(index)) {
      if (!write(chunk)) return;
    }
  }
  if (exchange->unfinished > 0) return;
  exchange->closed = true;
  if (!exchange->stream) return exchange->responder->send(Response::json(exchange->reply()));
  if (exchange->last_chunks) {
    for (const Json& chunk : exchange->last_chunks()) {
      if (!write(chunk)) return;
    }
  }
  exchange->responder->write(net::sse_event("[DONE]"));
  exchange->responder->end_stream();
}

void EngineServer::Impl::generate(const HttpRequest& request, const ResponderPtr& responder) {
  const tokenizer::Tokenizer& tokenizer = *engine.tokenizer();
  auto body = std::make_shared<GenerateBody>(
      generate_from_json(request.json(), tokenizer, fmt::format("{}-{}", request.id, next_id++)));
  auto exchange = std::make_shared<Exchange>();
  exchange->responder = responder;
  exchange->stream = body->stream;
  const bool list = body->list || body->requests.size() > 1 || body->requests[0].request.sampling.n > 1;
  std::vector<Request> requests;
  std::vector<int64_t> first_index;
  int64_t samples = 0;
  for (auto& each : body->requests) {
    first_index.push_back(samples);
    samples += each.request.sampling.n;
    requests.push_back(each.request);
  }
  Exchange* view = exchange.get();
  auto sent = std::make_shared<std::vector<std::vector<bool>>>(requests.size());
  exchange->chunks = [view, body, list, sent, first_index, &tokenizer](size_t index) {
    const Output& output = view->latest[index];
    std::vector<Json> changed, all = generate_to_json(output, body->requests[index], tokenizer);
    auto& over = (*sent)[index];
    over.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      if (over[i]) continue;
      over[i] = output.samples[i].finish != FinishReason::kNone;
      if (list) all[i]["index"] = first_index[index] + static_cast<int64_t>(i);
      changed.push_back(std::move(all[i]));
    }
    return changed;
  };
  exchange->reply = [view, body, list, &tokenizer] {
    Json all = Json::array();
    for (size_t i = 0; i < view->latest.size(); ++i) {
      for (Json& sample : generate_to_json(view->latest[i], body->requests[i], tokenizer))
        all.push_back(std::move(sample));
    }
    return list ? all : all[0];
  };
  launch(std::move(requests), exchange, request.deadline);
}

void EngineServer::Impl::openai(const HttpRequest& request, const ResponderPtr& responder, bool chat) {
  const tokenizer::Tokenizer& tokenizer = *engine.tokenizer();
  auto parsed = std::make_shared<OpenAiRequest>(
      openai_from_json(request.body, chat, tokenizer, format, model_name, fmt::format("{}-{}", request.id, next_id++)));
  auto exchange = std::make_shared<Exchange>();
  exchange->responder = responder;
  exchange->stream = parsed->stream;
  Exchange* view = exchange.get();
  auto sent = std::make_shared<std::vector<std::vector<StreamedSample>>>(parsed->requests.size());
  exchange->chunks = [view, parsed, sent, &tokenizer](size_t index) {
    const int64_t first = static_cast<int64_t>(index) * parsed->requests[0].sampling.n;
    return openai_chunks(*parsed, view->latest[index], first, (*sent)[index], tokenizer);
  };
  exchange->reply = [view, parsed, &tokenizer] { return openai_reply(*parsed, view->latest, tokenizer); };
  if (parsed->include_usage)
    exchange->last_chunks = [view, parsed] { return std::vector{openai_usage_chunk(*parsed, view->latest)}; };
  launch(parsed->requests, exchange, request.deadline);
}

void EngineServer::Impl::health_generate(const HttpRequest& request, const ResponderPtr& responder) {
  auto exchange = std::make_shared<Exchange>();
  exchange->responder = responder;
  Request probe;
  probe.id = fmt::format("health-{}", next_id++);
  probe.prompt_ids = {0};
  probe.sampling.temperature = 0;
  probe.sampling.max_new_tokens = 1;
  Deadline deadline = Deadline::after(std::min(20.0, request.deadline.remaining_s()));
  probe.on_output = [responder](Output output) {
    const Sample& sample = output.samples[0];
    if (sample.finish == FinishReason::kAbort)
      responder->send(Response::error(Error(ErrorKind::kMachine, "no token: " + sample.abort_message)));
    else responder->send(Response::json({{"status", "green"}, {"seconds", output.latency_s}}));
  };
  probe.deadline = deadline;
  const auto accepted = engine.submit(std::move(probe));
  if (!accepted) throw accepted.error();
}

Response EngineServer::Impl::health() const {
  const EngineStats stats = engine.stats();
  net::Colour colour = net::Colour::kGreen;
  std::string detail = fmt::format("{} running, {} waiting", stats.running, stats.waiting);
  if (closing) detail = "shutting down";
  else if (stats.paused) detail += ", paused";
  else if (stats.memory_released) detail += ", its memory released";
  if (closing || stats.waiting > stats.running * 4 + 256 || stats.consecutive_failures > 0)
    colour = net::Colour::kYellow;
  if (!engine.healthy()) {
    colour = net::Colour::kRed;
    detail = fmt::format("{} steps failed in a row: {}", stats.consecutive_failures, stats.last_failure);
  }
  return net::health_reply(colour, "engine", detail);
}

Json EngineServer::Impl::server_info() const {
  const EngineInfo& info = engine.info();
  const EngineStats s = engine.stats();
  return {{"version", "0.1.0"},
          {"model_path", info.model_path},
          {"device", info.device},
          {"dtype", info.dtype},
          {"parameters", info.parameters},
          {"max_context", info.max_context},
          {"kv_cache_tokens", info.kv_cache_tokens},
          {"weight_version", std::to_string(s.weight_version)},
          {"paused", s.paused},
          {"memory_released", s.memory_released},
          {"running", s.running},
          {"waiting", s.waiting},
          {"kv_tokens_free", s.kv_tokens_free},
          {"prefix_blocks", s.prefix_blocks},
          {"steps", s.steps},
          {"prompt_tokens", s.prompt_tokens},
          {"generated_tokens", s.generated_tokens},
          {"cached_tokens", s.cached_tokens},
          {"preemptions", s.preemptions},
          {"failed_steps", s.failed_steps},
          {"finished_requests", s.finished_requests},
          {"aborted_requests", s.aborted_requests},
          {"step_seconds", s.step_seconds}};
}

Response EngineServer::Impl::metrics() const {
  const EngineStats s = engine.stats();
  net::Metrics metrics("engine", {{"running_sequences", "sequences in the last step"},
                                  {"waiting_sequences", "sequences that wait for a place in a step"},
                                  {"kv_tokens_free", "tokens that the KV cache could still take"},
                                  {"kv_tokens_total", "tokens that the KV cache holds at most"},
                                  {"weight_version", "version of the weights"},
                                  {"paused", "1 while generation is paused"},
                                  {"steps_total", "forward passes"},
                                  {"step_seconds_total", "seconds in them"},
                                  {"prompt_tokens_total", "prompt tokens computed"},
                                  {"generated_tokens_total", "tokens sampled"},
                                  {"cached_tokens_total", "prompt tokens taken from the prefix cache"},
                                  {"preemptions_total", "sequences put back for want of KV cache"},
                                  {"failed_steps_total", "steps that failed"},
                                  {"requests_total", "requests that ended, by how"}});
  metrics.set("running_sequences", static_cast<double>(s.running));
  metrics.set("waiting_sequences", static_cast<double>(s.waiting));
  metrics.set("kv_tokens_free", static_cast<double>(s.kv_tokens_free));
  metrics.set("kv_tokens_total", static_cast<double>(s.kv_tokens_total));
  metrics.set("weight_version", static_cast<double>(s.weight_version));
  metrics.set("paused", s.paused ? 1 : 0);
  metrics.set("steps_total", static_cast<double>(s.steps));
  metrics.set("step_seconds_total", s.step_seconds);
  metrics.set("prompt_tokens_total", static_cast<double>(s.prompt_tokens));
  metrics.set("generated_tokens_total", static_cast<double>(s.generated_tokens));
  metrics.set("cached_tokens_total", static_cast<double>(s.cached_tokens));
  metrics.set("preemptions_total", static_cast<double>(s.preemptions));
  metrics.set("failed_steps_total", static_cast<double>(s.failed_steps));
  metrics.set("requests_total{end=\"finished\"}", static_cast<double>(s.finished_requests));
  metrics.set("requests_total{end=\"aborted\"}", static_cast<double>(s.aborted_requests));
  return metrics.reply();
}

EngineServer::EngineServer(Engine& engine, net::ServerOptions options)
    : impl_(std::make_unique<Impl>(engine, std::move(options))) {}
EngineServer::~EngineServer() { stop(0); }
void EngineServer::start() { impl_->server.start(); }
std::string EngineServer::url() const { return impl_->server.url(); }

void EngineServer::stop(double grace_s) {
  if (impl_->closing.exchange(true)) return;
  impl_->worker.drain();  // from here on no job submits
  impl_->engine.abort_all("the engine is shutting down");
  impl_->worker.drain();  // the last outputs are on their way
  impl_->server.stop(grace_s);
}

}  // namespace tritonforge::engine
