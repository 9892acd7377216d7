#include "cli/own_evaluator.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>

#include "base/cuda_driver.h"
#include "base/error.h"
#include "net/http.h"

namespace tritonforge::cli {

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
  options.env = net::own_server_environment();
  options.stdout_file = options.stderr_file = fmt::format("/proc/self/fd/{}", log_.get());
  process_.emplace(options);
  try {
    net::wait_until_healthy(url() + "/health", Deadline::after(120));
  } catch (const Error& error) {
    const std::string log = read_file(options.stderr_file);
    fail(error.kind(), "the evaluator did not start: {}; its last words: {}", error.what(),
         log.substr(log.size() - std::min<size_t>(log.size(), 300)));
  }
}

OwnEvaluator::~OwnEvaluator() { process_->stop(5); }

std::string OwnEvaluator::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

}  // namespace tritonforge::cli
