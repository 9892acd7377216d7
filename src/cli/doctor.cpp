#include <fmt/format.h>

#include <thread>

#include "base/process.h"
#include "cli/commands.h"

namespace tritonforge::cli {

void add_doctor_command(CLI::App& app) {
  auto* command = app.add_subcommand("doctor", "checks the machine and says what will be used and what is missing");
  command->callback([] {
    fmt::print("cores {}\nbinary {}\n", std::thread::hardware_concurrency(), own_executable().string());
  });
}

}  // namespace tritonforge::cli
