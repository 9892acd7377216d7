#include "orchestrate/plan.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

namespace tritonforge::orchestrate {
namespace {

constexpr const char* kFreePort = "a free one from 20000";  // base/process.h: free_port()

double gib(double bytes) { return bytes / (1024.0 * 1024 * 1024); }

class Planned {
 public:
  explicit Planned(const RecipeConfig& config) : config_(config) {
    plan_.name = config.name;
    plan_.seed = config.seed;
    plan_.stages = config.stages;
    plan_.layout = config.layout();
    plan_.notes = plan_.layout.notes;
  }

  Plan plan() {
    if (config_.generates()) add_generation();
    if (config_.evaluates()) add_evaluator();
    if (config_.trains()) add_trainer();
    if (config_.dashboard_port > 0) {
      add("dashboard", "", "cpu", fmt::format("http://127.0.0.1:{} or the next free port", config_.dashboard_port));
      plan_.processes.back().port = fmt::format("{} or the next free one", config_.dashboard_port);
    }
    return std::move(plan_);
  }

 private:
  PlannedProcess& add(const std::string& role, const std::string& group, const std::string& device,
                      const std::string& detail) {
    PlannedProcess process{.role = role, .group = group, .device = device, .port = kFreePort, .detail = detail};
    return plan_.processes.emplace_back(std::move(process));
  }
  void place(PlannedProcess& process, const Place& place) const {
    process.place = place;
    if (plan_.layout.given) process.device = text_of(place) + (place.gpus.empty() ? " (cpu)" : "");
  }
  std::string model() const { return config_.model.path + " " + config_.model.dtype; }

  void add_generation() {
    if (config_.model.is_chat()) {
      add("model", "", "external", fmt::format("{} at {}", config_.model.chat_name, config_.model.chat_url)).port = "";
    } else {
      const int limit = config_.router.admission.max_running;
      add("router", "", "cpu", config_.router.policy + (limit > 0 ? fmt::format(", {} requests at once", limit) : ""));
    }
    for (const auto& url : config_.engine.external) add("engine", "", "external", url).port = "";
    const int64_t tp = plan_.layout.engine_degrees.tp;
    const std::string ranks = tp > 1 ? fmt::format(", tp {}", tp) : "";
    for (size_t i = 0; config_.serves() && i < plan_.layout.engines.size(); ++i)
      place(add(fmt::format("engine-{}", i), "rollout", config_.model.device, model() + ranks),
            plan_.layout.engines[i]);
    const auto at_once = static_cast<int64_t>(config_.rollout.buffer.concurrency);
    const int64_t generators = config_.rollout.generators;
    add("buffer", "", "cpu",
        generators > 0 ? std::string("SQLite in the run's folder")
                       : fmt::format("SQLite in the run's folder, {} trajectories at once", at_once));
    for (int64_t i = 0; i < generators; ++i)
      add(fmt::format("generator-{}", i), "", "cpu", fmt::format("{} trajectories at once", at_once / generators));
  }

  void add_evaluator() {
    const Layout& layout = plan_.layout;
    const auto& devices = config_.evaluator.devices;
    const std::string device = devices.empty() ? config_.evaluator.device : fmt::format("{}", fmt::join(devices, ", "));
    const std::string waits = layout.given ? ", measures while who shares its devices waits"
                                           : ", measures while engine and trainer wait";
    const bool shares = layout.eval_shares && config_.evaluator.on_gpu();
    place(add("evaluator", "eval", device,
              fmt::format("mode {}, {} at once{}", name_of(config_.evaluator.mode), config_.evaluator.workers,
                          shares ? waits : "")),
          layout.eval);
  }

  void add_trainer() {
    const Layout& layout = plan_.layout;
    const Degrees& d = layout.actor_degrees;
    const auto world = static_cast<int64_t>(layout.actor.size());
    for (int64_t rank = 0; rank < world; ++rank) {
      const auto at = parallel::coordinates_of({.tp = d.tp, .cp = d.cp, .pp = d.pp, .dp = d.dp}, rank);
      const std::string part = fmt::format(", rank {} of {}: tp {}, cp {}, dp {}, pp {}", rank, world, at.tp, at.cp,
                                           at.dp, at.pp);
      PlannedProcess& process = add("trainer", "actor", config_.model.device, model() + (world > 1 ? part : ""));
      place(process, layout.actor[rank]);
      process.rank = rank;
      if (rank > 0) process.port = "";
    }
  }

  const RecipeConfig& config_;
  Plan plan_;
};

std::string memory_text(const PlannedProcess& process) {
  if (process.memory.empty()) return "";
  std::string parts;
  for (const auto& [name, bytes] : process.memory)
    parts += fmt::format("{}{} {:.2f}", parts.empty() ? "" : ", ", name, gib(bytes));
  const std::string limit = process.limit > 0 ? fmt::format(" of {:.1f}", gib(process.limit)) : "";
  return fmt::format("{:.2f}{} GiB ({})", gib(process.bytes()), limit, parts);
}

}  // namespace

double PlannedProcess::bytes() const {
  double sum = 0;
  for (const auto& [name, bytes] : memory) sum += bytes;
  return sum;
}

Plan make_plan(const RecipeConfig& config) { return Planned(config).plan(); }

std::string format_plan(const Plan& plan) {
  std::string text = fmt::format("run {} (seed {}): {}\n", plan.name, plan.seed, fmt::join(plan.stages, " -> "));
  size_t width = 10;
  for (const auto& process : plan.processes) width = std::max(width, process.device.size());
  std::string said;  // ranks of a group are alike
  for (const auto& process : plan.processes) {
    text += fmt::format("  {:<10} {:<{}} {}\n", process.role, process.device, width, process.detail);
    const std::string memory = memory_text(process);
    if (!memory.empty() && std::exchange(said, memory) != memory)
      text += fmt::format("  {:<10} {:<{}} {}\n", "", "", width, memory);
  }
  text += fmt::format("  listening: every server on loopback alone, at {} but the dashboard\n", kFreePort);
  for (const StepTime& step : plan.steps) {
    text += fmt::format("  a step of {}: about {:.3g} s:", step.stage, step.total);
    for (const auto& [part, seconds] : step.seconds)
      text += fmt::format("{} {} {:.3g}", &part == &step.seconds.front().first ? "" : ",", part, seconds);
    text += "\n";
  }
  for (const std::string& note : plan.notes) text += "  note: " + note + "\n";
  if (!plan.not_ready.empty()) text += "  not ready to run here: " + plan.not_ready + "\n";
  return text;
}

Json to_json(const Plan& plan) {
  Json json = {{"name", plan.name},          {"seed", plan.seed},   {"stages", plan.stages},
               {"hosts", plan.layout.hosts}, {"notes", plan.notes}, {"not_ready", plan.not_ready}};
  json["processes"] = Json::array();
  for (const PlannedProcess& process : plan.processes) {
    Json entry = {{"role", process.role},       {"group", process.group},     {"rank", process.rank},
                  {"host", process.place.host}, {"gpus", process.place.gpus}, {"cores", process.place.cores},
                  {"device", process.device},   {"port", process.port},       {"detail", process.detail}};
    entry["memory_bytes"] = Json::object();
    for (const auto& [name, bytes] : process.memory) entry["memory_bytes"][name] = static_cast<int64_t>(bytes);
    entry["total_bytes"] = static_cast<int64_t>(process.bytes());
    entry["limit_bytes"] = static_cast<int64_t>(process.limit);
    json["processes"].push_back(entry);
  }
  json["steps"] = Json::array();
  for (const StepTime& step : plan.steps) {
    Json entry = {{"stage", step.stage}, {"total_s", step.total}, {"seconds", Json::object()}};
    for (const auto& [part, seconds] : step.seconds) entry["seconds"][part] = seconds;
    json["steps"].push_back(entry);
  }
  return json;
}

}  // namespace tritonforge::orchestrate
