#include "engine/control.h"

#include "base/log.h"
#include "base/named_enum.h"

namespace tritonforge::engine {
namespace {

using HttpRequest = net::Request;
using net::Response;

// A command waits for one step; memory for the host's pages, too.
constexpr double kCommandSeconds = 60, kMemorySeconds = 600;

Deadline within(const HttpRequest& request, double seconds) {
  return Deadline::after(std::min(seconds, request.deadline.remaining_s()));
}

Response done(const char* message) { return Response::json({{"success", true}, {"message", message}}); }

// SGLang's "tags": of which memory it is said; without any, of all. Its graphs go and come with the KV cache.
MemoryParts memory_parts(const HttpRequest& request) {
  std::vector<std::string> tags;
  if (!request.body.empty()) tags = optional_field(request.json(), "tags", tags, "POST " + request.path);
  if (tags.empty()) return {};
  MemoryParts parts{.cache = false, .weights = false};
  for (const std::string& tag : tags) {
    if (tag == "kv_cache") parts.cache = true;
    else if (tag == "weights") parts.weights = true;
    else if (tag != "cuda_graph")
      fail(ErrorKind::kUnsupported, "POST {}: tag '{}'{}", request.path, tag,
           nearest_hint(tag, {"kv_cache", "weights", "cuda_graph"}));
  }
  return parts;
}

Response move_memory(Engine& engine, const HttpRequest& request, decltype(&Engine::release_memory) move,
                     const char* done_what) {
  const MemoryParts parts = memory_parts(request);
  const auto start = Clock::now();
  (engine.*move)(parts, within(request, kMemorySeconds));
  const double seconds = seconds_since(start);
  const std::string what = parts.cache && parts.weights ? "KV cache and weights"
                           : parts.cache                ? "KV cache"
                           : parts.weights              ? "weights"
                                                        : "nothing";
  log::info("memory of the {} {} in {:.3f} s", what, done_what, seconds);
  return Response::json({{"success", true}, {"message", fmt::format("{}: {}", what, done_what)}, {"seconds", seconds}});
}

Response pause(Engine& engine, const HttpRequest& request) {
  const auto mode = optional_field<std::string>(request.json(), "mode", "abort", "POST /pause_generation");
  engine.pause(from_name<PauseMode>(mode, "mode of POST /pause_generation"), within(request, kCommandSeconds));
  return done("paused");
}

Response abort(Engine& engine, const HttpRequest& request) {
  const Json body = request.json();
  if (optional_field(body, "abort_all", false, "POST /abort_request")) {
    engine.abort_all("aborted by request", within(request, kCommandSeconds));
  } else {
    engine.abort(require<std::string>(body, "rid", "POST /abort_request"));
  }
  return Response::json({{"success", true}});
}

}  // namespace

void add_control_routes(net::HttpServer& server, Engine& engine) {
  const auto post = [&](const char* path, auto handler) {
    server.route("POST", path, [&engine, handler](const HttpRequest& request) { return handler(engine, request); });
  };
  post("/pause_generation", pause);
  post("/continue_generation", [](Engine& e, const HttpRequest& request) {
    e.resume(within(request, kCommandSeconds));
    return done("continued");
  });
  post("/abort_request", abort);
  for (const char* method : {"GET", "POST"}) {
    const auto flush = [&engine](const HttpRequest& request) {
      engine.flush_cache(within(request, kCommandSeconds));
      return done("cache flushed");
    };
    server.route(method, "/flush_cache", flush, net::Effect::kChanges);
  }
  post("/release_memory_occupation", [](Engine& e, const HttpRequest& request) {
    return move_memory(e, request, &Engine::release_memory, "released");
  });
  post("/resume_memory_occupation", [](Engine& e, const HttpRequest& request) {
    return move_memory(e, request, &Engine::resume_memory, "there again");
  });
}

}  // namespace tritonforge::engine
