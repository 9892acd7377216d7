#include <fmt/format.h>
#include <sys/statvfs.h>
#include <thread>

#include "base/machine.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/torch/doctor.h"
#include "dataset/parquet.h"
#include "evaluate/evaluator.h"
#include "evaluate/zygote.h"
#include "kernels/device.h"
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

Json examine() {
  Json report = {{"cores", std::thread::hardware_concurrency()},
                 {"memory", machine_memory()},
                 {"disk", disk(fs::current_path())},
                 {"gpus", machine_gpus()},
                 {"ray", orchestrate::ray_is_built()},
                 {"gpu_kernels", kernels::has_gpu_kernels()},
                 {"parquet", dataset::parquet_missing()},
                 {"binary", own_executable().string()},
                 {"python", Json::object()},
                 {"sandbox", Json::object()},
                 {"self_test", Json::object()},
                 {"breaches", Json::array()},
                 {"refused", Json::array()},
                 {"evaluator", ""}};
  try {
    evaluate::Evaluator evaluator(evaluate::EvaluatorOptions{.workers = 1});
    const Json health = evaluator.health();
    report["python"] = health.at("versions");
    report["python"].erase("packages");
    report["sandbox"] = health.at("sandbox");
    report["self_test"] = health.at("self_test");
    report["breaches"] = health.at("breaches");
    report["refused"] = health.at("refused");
  } catch (const Error& error) {  // Python, torch or triton do not work
    report["evaluator"] = error.what();
  }
  const bool gpu = !report["gpus"].empty();
  report["uses"] = {{"model.device", gpu ? "cuda:0" : "cpu"}, {"evaluator.mode", gpu ? "live" : "plan"}};
  return report;
}

// The environment that a clone installs for itself, or the one that the program was installed into.
std::string install_python() {
  return fs::exists(own_executable().parent_path().parent_path() / "requirements" / "install")
             ? "requirements/install"
             : fmt::format("{} -m pip install torch=={}", evaluate::find_python().string(), kTorch);
}

// What gives a layer of the sandbox back where it is missing; of root, on the host where this is a container.
std::string mend_layer(const std::string& layer) {
  if (layer == "landlock")
    return "sudo sed -i 's/GRUB_CMDLINE_LINUX=\"/&lsm=landlock,lockdown,yama,apparmor,bpf /' "
           "/etc/default/grub && sudo update-grub && sudo reboot";
  if (layer == "namespaces" || layer == "mounts")
    return "sudo sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000";
  return "docker run --security-opt seccomp=unconfined ...   (where this is a container)";
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
  for (const auto& finding : all)
    if (!finding.mend.empty()) fmt::print("mend    {}\n", finding.mend);
}

}  // namespace

std::vector<Finding> findings(const Json& report) {
  std::vector<Finding> all;
  const auto add = [&](bool bad, std::string text, std::string mend) {
    all.push_back({bad, std::move(text), std::move(mend)});
  };
  const bool gpu = !report["gpus"].empty();
  if (const auto why = report.value("evaluator", ""); !why.empty()) add(true, why, install_python());
  else if (const auto torch = report["python"].value("torch", ""); torch.rfind(kTorch, 0) != 0)
    add(true, fmt::format("torch is '{}', {} is needed (TRITONFORGE_PYTHON names another Python)", torch, kTorch),
        install_python());
  if (!gpu)
    add(false, "no GPU: models run on the CPU, candidates as recorded plans (evaluator mode plan); there are no times",
        "");
  if (gpu && !report["gpu_kernels"].get<bool>())
    add(false, "libtritonforge_cuda.so does not open: models run with torch's kernels alone", "make gpu");
  for (const Json& refused : report["refused"]) {
    add(false,
        fmt::format("candidates: {} is refused: {}", refused["what"].get<std::string>(),
                    refused["why"].get<std::string>()),
        refused["mend"]);
  }
  if (const auto why = report.value("parquet", ""); !why.empty())
    add(false, why, fmt::format("{} -m pip install pyarrow==26.0.1", evaluate::find_python().string()));
  for (const auto& [layer, state] : report["sandbox"].items()) {
    if (layer == "control_group") continue;  // the strict rule alone demands it
    if (state.get<std::string>().rfind("enforced", 0) != 0)
      add(false, fmt::format("sandbox layer '{}' is not whole: {}", layer, state.get<std::string>()),
          mend_layer(layer));
  }
  for (const auto& breach : report["breaches"])
    add(true, fmt::format("sandbox: untrusted code can do this: {}", breach.get<std::string>()),
        mend_layer("namespaces"));
  if (!report.value("ray", true)) {
    const bool sources = fs::exists(own_executable().parent_path().parent_path() / "Makefile");
    add(false,
        fmt::format("run --launcher ray is not {} (local and ssh need nothing)",
                    sources ? "built" : "part of a package: make ray of the sources builds it"),
        sources ? "make ray" : "");
  }
  if (report["disk"].value("free_gib", 1e9) < 5)
    add(false,
        fmt::format("{:.1f} GiB of disk are free: checkpoints may not fit", report["disk"].value("free_gib", 0.0)),
        "tritonforge run RECIPE --output /another/disk/run");
  if (report["memory"].value("available_gib", 1e9) < 4)
    add(false, "less than 4 GiB of memory are free", "ps -eo rss,pid,args --sort=-rss | head   (who has it)");
  return all;
}

void add_doctor_command(CLI::App& app) {
  auto* command = app.add_subcommand("doctor", "checks the machine and says what will be used and what is missing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print the findings as JSON");
  command->footer("example: tritonforge doctor --json");
  command->callback([json] {
    const Json report = examine();
    const auto all = findings(report);
    if (*json) {
      Json whole = report;
      for (const auto& finding : all)
        whole["findings"].push_back({{"bad", finding.bad}, {"text", finding.text}, {"mend", finding.mend}});
      fmt::print("{}\n", whole.dump(2));
    } else {
      print_text(report, all);
    }
    for (const auto& finding : all) {
      if (finding.bad) fail(ErrorKind::kMachine, "this machine is not ready: {}", finding.text);
    }
  });
}

}  // namespace tritonforge::cli
