#include "train/server.h"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <future>
#include <limits>

#include "base/job_queue.h"
#include "base/log.h"
#include "train/service.h"

namespace tritonforge::train {
namespace {

constexpr size_t kMaxQueue = 16;

net::Response conflict(const OutOfTurn& error) {
  return net::Response::json(
      {{"error", {{"message", error.what()}, {"type", "usage"}}}, {"expected_step", error.expected_step}}, 409);
}

Json reply_to(const StepReply& reply) {
  Json json = to_json(reply.metrics);
  if (!reply.checkpoint.empty()) json["checkpoint"] = reply.checkpoint;
  if (!reply.checkpoint_error.empty()) json["checkpoint_error"] = reply.checkpoint_error;
  if (reply.repeated) json["repeated"] = true;
  return json;
}

}  // namespace

struct TrainerServer::Impl {
  explicit Impl(const ServerOptions& options) : http(http_options(options)), jobs(1, kMaxQueue) {
    start_service({options.config, options.resume, options.share_device, options.buffer_api_key});
    add_routes();
    http.start();
  }

  static net::ServerOptions http_options(const ServerOptions& options) {
    net::ServerOptions http;
    http.host = options.host;
    http.port = options.port;
    http.api_key = options.api_key;
    http.worker_threads = 1;
    return http;
  }

  // The service lives on the training thread from its first breath: the number of CPU threads belongs to a thread.
  void start_service(const ServiceOptions& options) {
    std::promise<void> ready;
    jobs.submit({[&] {
                   try {
                     if (options.config.threads > 0) at::set_num_threads(static_cast<int>(options.config.threads));
                     service = std::make_unique<TrainerService>(options);
                     ready.set_value();
                   } catch (...) {
                     ready.set_exception(std::current_exception());
                   }
                 },
                 [] {}});
    ready.get_future().get();
  }

  // Runs `work` on the training thread and answers with its Json.
  void route_job(const std::string& path, std::function<Json(const net::Request&)> work) {
    http.route_async("POST", path, [this, work](const net::Request& request, net::ResponderPtr responder) {
      JobQueue::Job job;
      job.run = [this, work, request, responder] { responder->send(run(work, request)); };
      job.refuse = [responder] {
        responder->send(net::Response::error(Error(ErrorKind::kUnavailable, "the trainer is stopping")));
      };
      if (!jobs.submit(std::move(job))) {
        responder->send(
            net::Response::error(Error(ErrorKind::kUnavailable, fmt::format("{} requests wait already", kMaxQueue))));
      }
    });
  }

  net::Response run(const std::function<Json(const net::Request&)>& work, const net::Request& request) {
    net::Response response;
    try {
      if (request.deadline.expired())
        fail(ErrorKind::kTimeout, "{} waited past its deadline for the training thread", request.path);
      response = net::Response::json(work(request));
    } catch (const OutOfTurn& error) {
      response = conflict(error);
    } catch (const Error& error) {
      response = net::Response::error(error);
    } catch (const std::exception& error) {
      log::error("{}: {}", request.path, error.what());
      response = net::Response::error(Error(ErrorKind::kInternal, error.what()));
    }
    service->idle();
    return response;
  }

  void add_routes() {
    route_job("/step", [this](const net::Request& request) {
      return reply_to(service->step(step_request_from_json(request.json())));
    });
    route_job("/save", [this](const net::Request& request) -> Json {
      const fs::path path = service->save(optional_field<std::string>(request.json(), "path", "", "POST /save"));
      return {{"path", path.string()}, {"step", service->steps_done()}};
    });
    route_job("/publish_weights", [this](const net::Request& request) -> Json {
      const Json body = request.json();
      const Published published = service->publish(
          require<int64_t>(body, "version", "POST /publish_weights"),
          optional_field<std::string>(body, "to", "shm", "POST /publish_weights"));
      return {{"path", published.path.string()}, {"version", published.version}, {"checksums", published.checksums}};
    });
    route_job("/export", [this](const net::Request& request) -> Json {
      return {{"path", service->export_to(require<std::string>(request.json(), "folder", "POST /export")).string()}};
    });
    http.route_async("GET", "/status", [this](const net::Request&, net::ResponderPtr responder) {
      Json status = service->status();
      status["queued"] = jobs.queued();
      responder->send(net::Response::json(status));
    });
    http.route_async("GET", "/health", [this](const net::Request&, net::ResponderPtr responder) {
      const auto health = service->health();
      const int status = std::string_view(health.colour) == "red" ? 503 : 200;
      responder->send(
          net::Response::json({{"status", health.colour}, {"role", "trainer"}, {"detail", health.detail}}, status));
    });
    http.route_async("GET", "/metrics", [this](const net::Request&, net::ResponderPtr responder) {
      responder->send(net::Response::text(service->metrics_text()));
    });
  }

  std::unique_ptr<TrainerService> service;
  net::HttpServer http;
  JobQueue jobs;
};

TrainerServer::TrainerServer(ServerOptions options) : impl_(std::make_unique<Impl>(options)) {}

TrainerServer::~TrainerServer() {
  impl_->jobs.stop();
  impl_->http.stop();
}

std::string TrainerServer::url() const { return impl_->http.url(); }

void TrainerServer::stop() {
  impl_->jobs.stop();
  impl_->http.stop();
  impl_->service->shut_down();
}

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace tritonforge::train
