#include "cli/own_evaluator.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>

#include "base/cuda_driver.h"
#include "base/error.h"
#include "net/instance.h"

namespace tritonforge::cli {

constexpr double kPatience = 120;  // seconds

void choose_gpus(const evaluate::EvaluatorOptions& options) {
  const std::vector<std::string> devices = options.devices.empty() ? std::vector{options.device} : options.devices;
  for (const std::string& name : devices)
    if (name.empty() || name == "cpu" || evaluate::EvaluatorOptions::is_emulated(name)) return;
  const std::string visible = visible_devices(devices, std::getenv("CUDA_VISIBLE_DEVICES"));
  ::setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
}

OwnEvaluator::OwnEvaluator(int workers) : port_(free_port()), log_(::memfd_create("evaluator.log", MFD_CLOEXEC)) {
  ProcessOptions options;
  options.argv = {own_executable().string(), "serve", "evaluator", "--port", std::to_string(port_), "--workers",
                  std::to_string(workers)};
  const std::string instance = net::fresh_instance("evaluator");
  options.env = net::own_server_environment();
  options.env[net::kInstanceVariable] = instance;
  options.stdout_file = options.stderr_file = fmt::format("/proc/self/fd/{}", log_.get());
  process_.emplace(options);
  const auto did_not_start = [&](ErrorKind kind, const std::string& why) {
    const std::string log = read_file(options.stderr_file);
    fail(kind, "the evaluator did not start: {}; its last words: {}", why,
         log.substr(log.size() - std::min<size_t>(log.size(), 300)));
  };
  net::HttpClient client({.timeout_s = 5});
  const Deadline deadline = Deadline::after(kPatience);
  while (!net::is_healthy(client.get(url() + "/health"), instance)) {  // another process may have its port
    if (const auto code = process_->wait(Deadline::after(0.05)))
      did_not_start(ErrorKind::kUnavailable, fmt::format("it exited with {}", *code));
    if (deadline.expired())
      did_not_start(ErrorKind::kTimeout, fmt::format("no answer of its own from {} within {} s", url(), kPatience));
  }
}

OwnEvaluator::~OwnEvaluator() { process_->stop(5); }

std::string OwnEvaluator::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

}  // namespace tritonforge::cli
