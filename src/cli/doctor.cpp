#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/process.h"
#include "cli/commands.h"
#include "evaluate/evaluator.h"
#include "orchestrate/ray_launcher.h"

namespace tritonforge::cli {
namespace {

constexpr const char* kTorch = "2.11.0";  // what the binary is linked against (requirements/python.txt)

double gib(double bytes) { return bytes / static_cast<double>(uint64_t{1} << 30); }

Json disk(const fs::path& folder) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) return Json();
  return {{"folder", folder.string()},
          {"free_gib", gib(static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize))}};
}

Json memory() {
  std::ifstream file("/proc/meminfo");
  double total = 0, available = 0, kib;
  for (std::string name, line; std::getline(file, line);) {
    std::istringstream(line) >> name >> kib;
    if (name == "MemTotal:") total = kib * 1024;
    if (name == "MemAvailable:") available = kib * 1024;
  }
  return {{"total_gib", gib(total)}, {"available_gib", gib(available)}};
}

// One entry a GPU, as the driver's own tool names it; no tool, no GPU.
Json gpus() {
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

struct Finding {
  bool bad;
  std::string text;
};

std::vector<Finding> findings(const Json& report) {
  std::vector<Finding> all;
  const auto add = [&](bool bad, std::string text) { all.push_back({bad, std::move(text)}); };
  const auto torch = report["python"].value("torch", "");
  if (torch.rfind(kTorch, 0) != 0)
    add(true,
        fmt::format("torch is '{}', {} is needed: requirements/install, or TRITONFORGE_PYTHON=PYTHON", torch, kTorch));
  if (report["gpus"].empty())
    add(false, "no GPU: models run on the CPU, candidates as recorded plans (evaluator mode plan); there are no times");
  for (const auto& [layer, state] : report["sandbox"].items()) {
    if (state.get<std::string>().rfind("enforced", 0) != 0)
      add(false, fmt::format("sandbox layer '{}' is not whole: {}", layer, state.get<std::string>()));
  }
  for (const auto& breach : report["breaches"])
    add(true, fmt::format("sandbox: untrusted code can do this: {}", breach.get<std::string>()));
  if (!report["ray"].get<bool>())
    add(false, "run --launcher ray is not built: `make ray` (local and ssh need nothing)");
  if (report["disk"].value("free_gib", 1e9) < 5)
    add(false,
        fmt::format("{:.1f} GiB of disk are free: checkpoints may not fit", report["disk"].value("free_gib", 0.0)));
  if (report["memory"].value("available_gib", 1e9) < 4) add(false, "less than 4 GiB of memory are free");
  return all;
}

Json examine() {
  Json report = {{"cores", std::thread::hardware_concurrency()},
                 {"memory", memory()},
                 {"disk", disk(fs::current_path())},
                 {"gpus", gpus()},
                 {"ray", orchestrate::ray_is_built()},
                 {"binary", own_executable().string()}};
  // Throws kMachine where Python, torch or triton do not work.
  evaluate::Evaluator evaluator(evaluate::EvaluatorOptions{.workers = 1});
  const Json health = evaluator.health();
  report["python"] = health.at("versions");
  report["python"].erase("packages");
  report["sandbox"] = health.at("sandbox");
  report["self_test"] = health.at("self_test");
  report["breaches"] = health.at("breaches");
  const bool gpu = !report["gpus"].empty();
  report["uses"] = {{"model.device", gpu ? "cuda:0" : "cpu"}, {"evaluator.mode", gpu ? "live" : "plan"}};
  return report;
}

void print_text(const Json& report, const std::vector<Finding>& all) {
  const auto line = [](const std::string& name, const std::string& text) { fmt::print("  {:<12} {}\n", name, text); };
  line("cores", report["cores"].dump());
  line("memory", fmt::format("{:.1f} GiB, {:.1f} free", report["memory"]["total_gib"].get<double>(),
                             report["memory"]["available_gib"].get<double>()));
  line("disk", fmt::format("{:.1f} GiB free at {}", report["disk"].value("free_gib", 0.0),
                           report["disk"].value("folder", "?")));
  for (const auto& gpu : report["gpus"]) line("gpu", gpu);
  line("python", fmt::format("{} torch {} triton {}", report["python"].value("python", "?"),
                             report["python"].value("torch", "?"), report["python"].value("triton", "?")));
  for (const auto& [layer, state] : report["sandbox"].items()) line(layer, state);
  line("uses", fmt::format("device {}, evaluator {}", report["uses"]["model.device"].get<std::string>(),
                           report["uses"]["evaluator.mode"].get<std::string>()));
  for (const auto& finding : all) fmt::print("{} {}\n", finding.bad ? "MISSING" : "note   ", finding.text);
  if (all.empty()) fmt::print("nothing is missing\n");
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto* command = app.add_subcommand("doctor", "checks the machine and says what will be used and what is missing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print the findings as JSON");
  command->footer("example: tritonforge doctor --json");
  command->callback([json] {
    const Json report = examine();
    const auto all = findings(report);
    if (*json) {
      fmt::print("{}\n", report.dump(2));
    } else {
      print_text(report, all);
    }
    for (const auto& finding : all) {
      if (finding.bad) fail(ErrorKind::kMachine, "this machine is not ready: {}", finding.text);
    }
  });
}

}  // namespace tritonforge::cli
