// The program. What computes with libtorch is in libtritonforge_torch.so, which is opened for the commands that need
// it: loading libtorch takes half a second and 100 MB of a process, and most servers and commands do without.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>

#include "base/build.h"
#include "base/error.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/main/torch.h"

namespace tritonforge::cli {
namespace {

void add_commands_without_torch(CLI::App& app) {
  add_submit_command(app);
  add_bench_command(app);
  add_data_command(app);
  add_evaluate_command(app);
  add_tokenize_command(app);
  add_report_command(app);
  add_compare_command(app);
  add_trace_command(app);
  add_track_command(app);
  add_serve_command(app);
  add_schema_command(app);
  add_agent_command(app);
}

// All commands. What says which there are, as --help does, is among them.
int run_with_torch(int argc, char** argv) {
  const fs::path library = own_executable().parent_path() / kTorchLibrary;
  void* opened = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (opened == nullptr) {
    fmt::print(stderr, "tritonforge: what computes with libtorch cannot be loaded: {}\n", dlerror());
    return exit_code(ErrorKind::kMachine);
  }
  const auto run = reinterpret_cast<decltype(&tritonforge_torch_run)>(dlsym(opened, "tritonforge_torch_run"));
  if (run == nullptr) {
    fmt::print(stderr, "tritonforge: {} is of another build than this program\n", library.string());
    return exit_code(ErrorKind::kMachine);
  }
  return run(argc, argv);
}

}  // namespace
}  // namespace tritonforge::cli

int main(int argc, char** argv) {
  using namespace tritonforge::cli;
  if (names_command(argc, argv, add_commands_without_torch)) return run(argc, argv, add_commands_without_torch);
  return run_with_torch(argc, argv);
}
