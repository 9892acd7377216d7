#include "engine/control.h"

#include "base/log.h"
#include "base/named_enum.h"

namespace tritonforge::engine {
namespace {

using HttpRequest = net::Request;
using net::Response;

// A command waits for one step; an update of the weights for reading and checking all of them, too, and memory for the
// host's pages.
constexpr double kCommandSeconds = 60, kUpdateSeconds = 600, kMemorySeconds = 600;

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

Response pause(Engine& engine, const HttpRequest& request) {
  const Json body = request.json();
  const auto mode = optional_field<std::string>(body, "mode", "retain", "POST /pause_generation");
  if (mode != "retain" && mode != "in_place" && mode != "abort") {
    fail(ErrorKind::kUsage, "POST /pause_generation: mode '{}'{}", mode, nearest_hint(mode, {"retain", "abort"}));
  }
  engine.pause(within(request, kCommandSeconds));
  if (mode == "abort") engine.abort_all("generation was paused", within(request, kCommandSeconds));
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

// "mode", or SGLang's "abort_all_requests". Left open: the engine's option decides.
std::optional<UpdateMode> mode_of(const Json& body, const std::string& where) {
  const auto mode = optional_field<std::string>(body, "mode", "", where);
  if (!mode.empty()) return from_name<UpdateMode>(mode, where + ": mode");
  if (optional_field(body, "abort_all_requests", false, where)) return UpdateMode::kAbort;
  return std::nullopt;
}

Response update_weights(Engine& engine, const HttpRequest& request, const char* path_field) {
  const std::string where = "POST " + request.path;
  const Json body = request.json();
  PublishedWeights weights;
  if (body.contains("device")) weights.device = device_weights_from_json(body.at("device"));
  weights.path = weights.device ? optional_field<std::string>(body, path_field, "", where)
                                : require<std::string>(body, path_field, where);
  weights.version = version_of(body, where);
  weights.checksums = optional_field(body, "checksums", TensorChecksums{}, where);
  const auto installed = engine.update_weights(weights, mode_of(body, where), within(request, kUpdateSeconds));
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
    server.route(method, "/flush_cache", [&engine](const HttpRequest& request) {
      engine.flush_cache(within(request, kCommandSeconds));
      return done("cache flushed");
    });
  }
  post("/release_memory_occupation", [](Engine& e, const HttpRequest& request) {
    return move_memory(e, request, &Engine::release_memory, "released");
  });
  post("/resume_memory_occupation", [](Engine& e, const HttpRequest& request) {
    return move_memory(e, request, &Engine::resume_memory, "there again");
  });
  post("/update_weights_from_disk",
       [](Engine& e, const HttpRequest& request) { return update_weights(e, request, "model_path"); });
  post("/update_weights_from_tensor",
       [](Engine& e, const HttpRequest& request) { return update_weights(e, request, "path"); });
}

}  // namespace tritonforge::engine
