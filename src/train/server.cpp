#include "train/server.h"

#include <malloc.h>

#include <limits>

#include "base/job_queue.h"
#include "base/log.h"

namespace tritonforge::train {
namespace {

constexpr size_t kMaxQueue = 16;

StepRequest step_request(const net::Request& request) {
  const auto type = request.headers.find("content-type");
  const bool binary = type != request.headers.end() && type->second.starts_with(kSequencesContentType);
  return binary ? sft_step_from_binary(request.body) : step_request_from_json(request.json());
}

// {"step": N} of a request that is about the weights after N steps and no others. Absent: whatever they are.
void expect_step(const TrainerService& service, const Json& body, const std::string& where) {
  if (body.contains("step")) service.expect(require<int64_t>(body, "step", where));
}

}  // namespace

struct TrainerServer::Impl {
  Impl(TrainerService& the_service, net::ServerOptions options)
      : service(the_service), http(std::move(options)), jobs(1, kMaxQueue) {
    add_routes();
    jobs.submit([this] { service.set_up_thread(); });
    // Its leases are committed now, not with the next request.
    service.on_written([this] {
      jobs.submit([this] {
        service.settle(true);
        service.idle();
      });
    });
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
    } catch (const std::exception& error) {
      response = net::Response::error(error);
      if (response.status == 409) {
        response = net::Response::error(error, {{"expected_step", service.steps_done() + 1}});
      } else if (response.status == 500) {
        log::error("{}: {}", request.path, error.what());
      }
    }
    service.idle();
    return response;
  }

  void add_routes() {
    route_job("/step", [this](const net::Request& request) {
      return to_json(service.step([&request] { return step_request(request); }));
    });
    http.route("POST", "/prepare", [this](const net::Request& request) {  // beside the training thread
      StepRequest ahead = step_request(request);
      const int64_t step = ahead.step;
      service.prepare(std::move(ahead));
      return net::Response::json({{"step", step}});
    });
    route_job("/save", [this](const net::Request& request) -> Json {
      const Json body = request.json();
      expect_step(service, body, "POST /save");
      const fs::path path = service.save(optional_field<std::string>(body, "path", "", "POST /save"));
      return {{"path", path.string()},
              {"step", service.steps_done()},
              {"uncommitted_leases", service.uncommitted_leases()}};
    });
    route_job("/publish_weights", [this](const net::Request& request) -> Json {
      const Json body = request.json();
      const std::string where = "POST /publish_weights";
      expect_step(service, body, where);
      const auto version = require<int64_t>(body, "version", where);
      const auto to = optional_field<std::string>(body, "to", "shm", where);
      if (to != "sglang") return to_json(service.publish(version, to));
      weights::SglangOptions options;
      options.host = optional_field(body, "host", options.host, where);
      options.backend = optional_field(body, "backend", options.backend, where);
      options.pause = optional_field(body, "pause", options.pause, where);
      options.bucket_bytes = optional_field(body, "bucket_bytes", options.bucket_bytes, where);
      service.push(version, require<std::vector<std::string>>(body, "engines", where), options);
      return {{"version", version}};
    });
    route_job("/export", [this](const net::Request& request) -> Json {
      const Json body = request.json();
      expect_step(service, body, "POST /export");
      return {{"path", service.export_to(require<std::string>(body, "folder", "POST /export")).string()},
              {"step", service.steps_done()}};
    });
    http.route_async("GET", "/status", [this](const net::Request&, net::ResponderPtr responder) {
      Json status = service.status();
      status["queued"] = jobs.queued();
      responder->send(net::Response::json(status));
    });
    http.route_async("GET", "/health", [this](const net::Request&, net::ResponderPtr responder) {
      const auto health = service.health();
      responder->send(net::health_reply(health.colour, "trainer", health.detail));
    });
    http.route_async("GET", "/metrics", [this](const net::Request&, net::ResponderPtr responder) {
      responder->send(service.metrics().reply());
    });
  }

  TrainerService& service;
  net::HttpServer http;
  JobQueue jobs;
};

TrainerServer::TrainerServer(TrainerService& service, net::ServerOptions options)
    : impl_(std::make_unique<Impl>(service, std::move(options))) {}
TrainerServer::~TrainerServer() {
  stop(0);
  impl_->service.settle(true);  // who would tell this server of it
  impl_->service.on_written([] {});
}
void TrainerServer::start() { impl_->http.start(); }
std::string TrainerServer::url() const { return impl_->http.url(); }

void TrainerServer::stop(double grace_s) {
  impl_->jobs.stop();
  impl_->http.stop(grace_s);
}

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace tritonforge::train
