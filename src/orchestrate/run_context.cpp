#include "orchestrate/run_context.h"

#include <algorithm>

#include "base/checksum.h"
#include "net/bulk.h"
#include "net/http.h"
#include "net/key.h"
#include "rollout/generator_process.h"

namespace tritonforge::orchestrate {
namespace {

std::string loopback(int port) { return fmt::format("http://127.0.0.1:{}", port); }

int port_of(const std::string& url) { return std::stoi(url.substr(url.rfind(':') + 1)); }

constexpr double kTurnGrace = 5;  // seconds that a stop gives the turns under way

// OpenMP threads that spin while they wait would take the cores from the other roles.
const std::map<std::string, std::string> kRoleEnvironment = [] {
  auto environment = net::own_server_environment();
  environment.insert({{"OMP_WAIT_POLICY", "PASSIVE"}, {"KMP_BLOCKTIME", "0"}});
  return environment;
}();

int first_free_port(int64_t wanted) {
  for (int64_t port = wanted; port < wanted + 20; ++port) {
    if (!claim_port(static_cast<int>(port))) continue;
    try {
      net::HttpServer probe({.port = static_cast<int>(port)});
      probe.start();
      probe.stop(0);
      return static_cast<int>(port);
    } catch (const Error&) {
      continue;  // in use: the next one
    }
  }
  return free_port();
}

Role own_role(Supervisor& supervisor, const std::string& name) { return Role(supervisor, name, loopback(free_port())); }

std::vector<Role> own_engines(Supervisor& supervisor, const RecipeConfig& config) {
  std::vector<Role> engines;
  const bool own = config.engine.external.empty() && !config.model.is_chat();
  for (int64_t i = 0; own && i < config.engine.count; ++i)
    engines.push_back(own_role(supervisor, fmt::format("engine-{}", i)));
  return engines;
}

// What the trainer may have to write when it is asked to stop, at a rate that every disk reaches: weights, master
// weights and two moments in fp32 beside a file in 16 bit are seven times its size.
double save_grace_s(const fs::path& model) {
  constexpr double kBytesPerSecond = 50e6, kCheckpointPerModel = 7;
  double bytes = 0;
  if (fs::is_directory(model)) {
    for (const auto& entry : fs::directory_iterator(model)) {
      if (entry.is_regular_file()) bytes += static_cast<double>(entry.file_size());
    }
  } else if (fs::exists(model)) {
    bytes = static_cast<double>(fs::file_size(model));
  }
  return 30 + kCheckpointPerModel * bytes / kBytesPerSecond;
}

}  // namespace

RunContext::RunContext(RecipeConfig recipe, RunRecord& run_record, std::unique_ptr<Launcher> launcher)
    : config(std::move(recipe)),
      layout(config.layout()),
      record(run_record),
      supervisor(run_record.folder() / "logs", config.supervisor, std::move(launcher)),
      engines(own_role(supervisor, "router"), own_engines(supervisor, config), config.engine.external),
      buffer(own_role(supervisor, "buffer"), config.supervisor.stalled_after_s),
      evaluator(own_role(supervisor, "evaluator")),
      trainer(own_role(supervisor, "trainer"),
              publishes_to_hosts() && config.placement.weights == "group" ? "group" : "shm"),
      dashboard_url(config.dashboard_port > 0 ? loopback(first_free_port(config.dashboard_port)) : ""),
      weights_key_(publishes_to_hosts() && config.placement.weights != "folder" ? net::random_key() : "") {}

RunContext::~RunContext() { supervisor.stop_all(); }

bool is_apart(const Layout& layout) {
  const std::string& host = layout.actor.front().host;
  if (!std::ranges::all_of(layout.engines, [&](const Place& engine) { return engine.host == host; })) return true;
  return host != kHead && layout.hosts.size() > 1;
}

bool RunContext::publishes_to_hosts() const { return config.serves() && is_apart(layout); }

std::map<std::string, std::string> RunContext::weights_environment() const {
  if (weights_key_.empty()) return {};
  std::map<std::string, std::string> env{{kWeightsKey, weights_key_}};
  const net::TlsFiles tls = net::named_bulk_tls().value_or(net::TlsFiles{});
  for (const auto& [variable, file] :
       {std::pair{net::kBulkCert, tls.cert}, {net::kBulkCertKey, tls.key}, {net::kBulkCa, tls.ca}})
    if (!file.empty()) env[variable] = fs::absolute(file);
  return env;
}

void RunContext::put(RoleSpec& spec, std::vector<Place> places) const {
  if (!layout.given) return;
  spec.places = std::move(places);
  spec.confined = true;
}

std::vector<RoleSpec> RunContext::service_specs(const fs::path& model) {
  const std::string self = own_executable().string();
  const auto role = [&](const std::string& name, const std::string& kind, const std::string& url,
                        const std::vector<std::string>& flags) {
    RoleSpec spec;
    spec.name = name;
    spec.url = url;
    spec.argv = {self, "serve", kind, "--port", std::to_string(port_of(url))};
    spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
    spec.env = kRoleEnvironment;
    return spec;
  };
  std::vector<RoleSpec> specs;
  if (!dashboard_url.empty())
    specs.push_back(role("dashboard", "dashboard", dashboard_url, {"--run", record.folder().string()}));
  if (config.evaluates()) {
    specs.push_back(role("evaluator", "evaluator", evaluator.url(), to_flags(evaluator_options(config))));
    put(specs.back(), {layout.eval});
  }
  if (!config.generates()) return specs;

  if (!config.model.is_chat()) {
    RoleSpec router = role("router", "router", engines.router_url(), to_flags(config.router));
    router.on_ready = [this](bool restarted) { engines.bring_up_router(restarted); };
    router.restart_when_red = false;  // it is red where its engines are
    if (const char* key = std::getenv(net::kPeerKeyVariable); key != nullptr && !config.engine.external.empty())
      router.env[net::kPeerKeyVariable] = key;       // theirs; a run's own engines have none
    specs.insert(specs.begin(), std::move(router));  // first: engines register with it
  }
  rollout::ServiceOptions options = config.rollout.buffer;
  options.database = record.folder() / "buffer.sqlite";
  options.peers.router = config.model.is_chat() ? config.model.chat_url : engines.router_url();
  options.peers.evaluator = evaluator.url();
  rollout::GeneratorOptions generator;
  const auto processes = static_cast<size_t>(config.rollout.generators);
  if (processes > 0) {
    generator = {.buffer = buffer.url(), .name = "", .peers = options.peers};
    generator.concurrency = options.concurrency / processes;
    generator.evaluations = options.evaluations / processes;
    options.concurrency = 0;
  }
  specs.push_back(role("buffer", "buffer", buffer.url(), to_flags(options)));
  specs.back().argv.insert(specs.back().argv.end(), {"--grace", fmt::format("{}", kTurnGrace)});
  if (!config.model.is_chat()) specs.back().argv.insert(specs.back().argv.end(), {"--tokenizer", model.string()});
  specs.back().stop_turn = 1;  // a turn under way needs engine and evaluator to its end
  specs.back().grace_s = kTurnGrace + 5;
  for (size_t i = 0; i < processes; ++i) {
    generator.name = fmt::format("generator-{}", i);
    const Role own = own_role(supervisor, generator.name);
    specs.push_back(role(generator.name, "generator", own.url(), to_flags(generator)));
    RoleSpec& spec = specs.back();
    spec.argv.insert(spec.argv.end(), {"--grace", fmt::format("{}", kTurnGrace)});
    if (!config.model.is_chat()) spec.argv.insert(spec.argv.end(), {"--tokenizer", model.string()});
    spec.stop_turn = 0;  // they hand over to the buffer what they end
    spec.grace_s = kTurnGrace + 5;
  }

  for (size_t i = 0; i < engines.own().size(); ++i) {
    const Role& own = engines.own()[i];
    RoleSpec engine = role(own.name(), "engine", own.url(), to_flags(engine_options(config, model)));
    engine.ready_timeout_s = config.supervisor.start_timeout_s;
    put(engine, {layout.engines[i]});
    engine.env.merge(weights_environment());
    engine.on_ready = [this, url = own.url()](bool) {
      engines.bring_up(url, [this](int64_t version) { return trainer.publish(version, /*steps=*/version - 1); });
    };
    specs.push_back(std::move(engine));
  }
  return specs;
}

void RunContext::start_services(const fs::path& model) {
  auto specs = service_specs(model);
  if (specs.empty()) return;
  // The first, the router, must be up before the engines.
  std::vector<RoleSpec> first(std::make_move_iterator(specs.begin()), std::make_move_iterator(specs.begin() + 1));
  supervisor.start(std::move(first));
  supervisor.start({std::make_move_iterator(specs.begin() + 1), std::make_move_iterator(specs.end())});
}

evaluate::EvaluatorOptions evaluator_options(const RecipeConfig& config) {
  constexpr double kOfASharedDevice = 0.5;  // the rest is the engine's and the trainer's
  evaluate::EvaluatorOptions options = config.evaluator;
  if (config.share_device && options.device_memory == 0) options.device_memory = kOfASharedDevice;
  return options;
}

engine::EngineOptions engine_options(const RecipeConfig& config, const fs::path& model) {
  const Layout layout = config.layout();
  engine::EngineOptions options = config.engine;
  options.model = model;
  options.device = config.model.device;
  options.dtype = config.model.dtype;
  options.share_device = layout.rollout_shares;
  options.tp = layout.engine_degrees.tp;
  return options;
}

train::TrainConfig trainer_config(const RecipeConfig& config, const train::TrainConfig& section,
                                  const std::string& stage, const fs::path& model, const fs::path& run_folder,
                                  int64_t total_steps) {
  train::TrainConfig result = section;
  result.model = model.string();
  result.dtype = config.model.dtype;
  result.device = config.model.device;
  if (config.placement.given()) result.parallel = config.layout().actor_degrees.dims(section.parallel);
  result.seed = config.seed;
  result.total_steps = total_steps;
  result.max_staleness = config.rl.max_staleness + config.rl.update_interval - 1 +
                         (config.rl.replay.groups > 0 ? config.rl.replay.steps : 0);
  // Between two updates the engines have other weights than the trainer: a run that went on from there would give them
  // those in between.
  if (stage == "rl") result.stop_interval = config.rl.update_interval;
  result.checkpoint = (run_folder / "checkpoints" / stage).string();
  result.run_id = checksum(fs::absolute(run_folder).string()).substr(0, 12) + "-" + stage;
  return result;
}

void RunContext::start_trainer(const std::string& stage, const train::TrainConfig& section, const fs::path& model,
                               int64_t total_steps) {
  const fs::path file = record.folder() / fmt::format("trainer-{}.yaml", stage);
  const auto trainer_options = trainer_config(config, section, stage, model, record.folder(), total_steps);
  write_file_atomic(file, dump_config(trainer_options));
  const bool by_folder = publishes_to_hosts() && weights_key_.empty();
  const fs::path shared = by_folder ? record.folder() : SharedFolder::usual_parent();
  shared_.emplace(trainer_options.run_id, shared);
  RoleSpec spec;
  spec.name = "trainer";
  spec.url = trainer.url();
  spec.env = kRoleEnvironment;
  spec.env["TRITONFORGE_SHARED"] = shared.string();
  spec.publishes = !weights_key_.empty();
  spec.env.merge(weights_environment());
  spec.ready_timeout_s = config.supervisor.start_timeout_s;
  spec.grace_s = save_grace_s(model);
  // --resume begins afresh where there is no checkpoint yet.
  spec.argv = {own_executable().string(),
               "serve",
               "trainer",
               "--config",
               file.string(),
               "--port",
               std::to_string(port_of(trainer.url())),
               "--resume"};
  if (config.generates()) spec.argv.insert(spec.argv.end(), {"--buffer", buffer.url()});
  if (spec.publishes && config.placement.weights == "group") spec.argv.push_back("--weights-in-parts");
  if (layout.actor_shares) spec.argv.push_back("--share-device");
  put(spec, layout.actor);
  if (config.generates()) spec.reaches = {port_of(buffer.url())};
  std::vector<RoleSpec> specs;
  specs.push_back(std::move(spec));
  supervisor.start(std::move(specs));
}

}  // namespace tritonforge::orchestrate
