#pragma once
// This program started again as a server, for what measures and tests several processes.
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "base/process.h"
#include "net/http.h"
#include "net/retry.h"

namespace tritonforge {

class ServerProcess {
 public:
  // With `arguments` and the port behind them; `gpu` (an index or a UUID) is the one that it sees, empty: all that this
  // process sees. It ends with the thread that starts it, and the first post waits until it answers.
  ServerProcess(std::vector<std::string> arguments, const std::string& gpu)
      : port_(free_port()), child_({.argv = command(std::move(arguments), port_), .env = environment(gpu)}) {}
  Result<Json> post(const char* path, const Json& body = Json::object()) {
    if (!answers_) wait_until_it_answers();
    return client_.post_json(url(path), body);
  }
  std::string url(const char* path) const { return fmt::format("http://127.0.0.1:{}{}", port_, path); }
  void kill() {
    child_.signal(9);
    child_.wait(Deadline::after(60));
  }

 private:
  void wait_until_it_answers() {
    net::retry<net::Response>(
        "the other process", Deadline::after(300), [&] { return client_.get(url("/health")); },
        {.again = [&](const Error&) { return !child_.poll().has_value(); }, .backoff = {.max_s = 0.5}})
        .value();
    answers_ = true;
  }
  static std::vector<std::string> command(std::vector<std::string> arguments, int port) {
    arguments.insert(arguments.begin(), own_executable().string());
    arguments.push_back(std::to_string(port));
    return arguments;
  }
  static std::map<std::string, std::string> environment(const std::string& gpu) {
    if (gpu.empty()) return {};
    return {{"CUDA_VISIBLE_DEVICES", gpu}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}};  // as of a placed run
  }
  const int port_;
  ChildProcess child_;
  bool answers_ = false;
  net::HttpClient client_{{.timeout_s = 300}};
};

}  // namespace tritonforge
