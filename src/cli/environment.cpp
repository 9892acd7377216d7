#include "cli/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "base/nearest.h"

namespace tritonforge::cli {
namespace {

constexpr std::string_view kOwnPrefix = "TRITONFORGE_";

// What processes of this program tell each other, and what the launcher, tests and benchmarks of its repository read.
constexpr std::string_view kOthers[] = {
    "TRITONFORGE_BENCH_MODEL", "TRITONFORGE_BINARY",      "TRITONFORGE_BUILD",         "TRITONFORGE_DEVICE_EVALUATIONS",
    "TRITONFORGE_HELD_INPUT",  "TRITONFORGE_HELD_SOCKET", "TRITONFORGE_INSTANCE",      "TRITONFORGE_IR_BESIDE",
    "TRITONFORGE_IR_RUN",      "TRITONFORGE_OUTPUT",      "TRITONFORGE_SGLANG_PYTHON", "TRITONFORGE_TEST_MODEL",
    "TRITONFORGE_TEST_SEED",
};

bool is_known_variable(const std::string& name) {
  return std::ranges::any_of(environment_variables(), [&](const auto& variable) { return variable.name == name; }) ||
         std::ranges::find(kOthers, name) != std::end(kOthers);
}

// Without the prefix, which makes any two of them alike.
std::string variable_hint(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& variable : environment_variables()) known.emplace_back(variable.name.substr(kOwnPrefix.size()));
  const auto nearest = nearest_name(name.substr(kOwnPrefix.size()), known);
  if (!nearest) return "; `tritonforge manual` lists those that are read";
  return fmt::format(" (did you mean '{}{}'?)", kOwnPrefix, *nearest);
}

}  // namespace

const std::vector<EnvironmentVariable>& environment_variables() {
  static const std::vector<EnvironmentVariable> variables = {
      {"TRITONFORGE_API_KEY", "the bearer key that a server asks for, where --api-key-file names none"},
      {"TRITONFORGE_LOG", "the least that is logged: trace, debug, info (the default), warn, error, critical or off"},
      {"TRITONFORGE_PEER_API_KEY",
       "the bearer key that is sent to other servers, where --peer-api-key-file names none; else the server's own"},
      {"TRITONFORGE_PYTHON", "the Python that has torch and Triton, in place of the one found when this was built"},
      {"TRITONFORGE_RENDEZVOUS_KEY", "the key that the ranks of a trainer over several hosts meet with"},
      {"TRITONFORGE_ROOT", "the folder with worker/, and where a recipe's paths begin that are not found here"},
      {"TRITONFORGE_SHARED", "the folder that weights go through from trainers to engines, in place of /dev/shm"},
      {"TRITONFORGE_TLS_CA",
       "the PEM file of the authority that must have signed what other servers, and clients, show; --tls-ca"},
      {"TRITONFORGE_TLS_CERT", "the PEM file of this process's certificate chain; --tls-cert"},
      {"TRITONFORGE_TLS_KEY", "the PEM file of its private key; --tls-key"},
      {"TRITONFORGE_WEIGHTS_KEY", "the key of both ends of weights that go over TCP"},
      {"TRITONFORGE_WEIGHTS_TLS_CA", "the authority of those ends alone, as a PEM file"},
      {"TRITONFORGE_WEIGHTS_TLS_CERT", "the certificate chain of this end, as a PEM file"},
      {"TRITONFORGE_WEIGHTS_TLS_KEY", "its private key, as a PEM file"},
      {"TRITONFORGE_WORKER_DEBUG", "1: what the children that run kernels write to stderr is the evaluator's"},
  };
  return variables;
}

void warn_of_unknown_variables() {
  std::vector<std::string> unknown;
  for (char** entry = ::environ; *entry; ++entry) {
    const std::string_view text = *entry;
    std::string name(text.substr(0, text.find('=')));
    if (name.starts_with(kOwnPrefix) && !is_known_variable(name)) unknown.push_back(std::move(name));
  }
  for (const std::string& name : unknown) {
    log::warn("the environment has {}, which nothing reads{}", name, variable_hint(name));
    ::unsetenv(name.c_str());
  }
}

}  // namespace tritonforge::cli
