#include "base/machine.h"

#include <sys/utsname.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/filesystem.h"
#include "base/process.h"

namespace tritonforge {
namespace {

double gib(double bytes) { return bytes / static_cast<double>(uint64_t{1} << 30); }

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "";
}

}  // namespace

Json machine_memory() {
  std::ifstream file("/proc/meminfo");
  double total = 0, available = 0, kib = 0;
  for (std::string name, line; std::getline(file, line);) {
    std::istringstream(line) >> name >> kib;
    if (name == "MemTotal:") total = kib * 1024;
    if (name == "MemAvailable:") available = kib * 1024;
  }
  return {{"total_gib", gib(total)}, {"available_gib", gib(available)}};
}

Json machine_gpus() {
  Json found = Json::array();
  try {
    const auto said = run_command(
        {"nvidia-smi", "--query-gpu=index,name,memory.total,driver_version,uuid", "--format=csv,noheader"}, 20);
    std::istringstream lines(said.exit_code == 0 ? said.output : "");
    for (std::string line; std::getline(lines, line);) found.push_back("nvidia " + line);
  } catch (const Error&) {  // nvidia-smi is not installed
  }
  if (fs::exists("/dev/kfd")) found.push_back("amd (/dev/kfd; the evaluator's live mode is not tested on it)");
  return found;
}

Json machine_description() {
  utsname system{};
  ::uname(&system);
  return {{"host", system.nodename},
          {"kernel", system.release},
          {"processor", processor()},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_gib", machine_memory()["total_gib"]},
          {"gpus", machine_gpus()}};
}

}  // namespace tritonforge
