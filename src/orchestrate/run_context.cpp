#include "orchestrate/run_context.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/log.h"

namespace tritonforge::orchestrate {
namespace {

std::string loopback(int port) { return fmt::format("http://127.0.0.1:{}", port); }

int port_of(const std::string& url) { return std::stoi(url.substr(url.rfind(':') + 1)); }

// OpenMP threads that spin while they wait would take the cores from the other roles.
const std::map<std::string, std::string> kComputeEnvironment = {{"OMP_WAIT_POLICY", "PASSIVE"}, {"KMP_BLOCKTIME", "0"}};

int first_free_port(int64_t wanted) {
  for (int64_t port = wanted; port < wanted + 20; ++port) {
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

}  // namespace

RunContext::RunContext(RecipeConfig recipe, RunRecord& run_record)
    : config(std::move(recipe)),
      record(run_record),
      supervisor(std::make_unique<Supervisor>(run_record.folder() / "logs")) {
  router_url = loopback(free_port());
  evaluator_url = loopback(free_port());
  buffer_url = loopback(free_port());
  trainer_url = loopback(free_port());
  engine_urls_ = config.engine.external;
  if (engine_urls_.empty()) {
    for (int64_t i = 0; i < config.engine.count; ++i) engine_urls_.push_back(loopback(free_port()));
  }
  if (config.dashboard_port > 0) dashboard_url = loopback(first_free_port(config.dashboard_port));
}

RunContext::~RunContext() { supervisor->stop_all(); }

std::vector<RoleSpec> RunContext::service_specs(const fs::path& model) {
  const std::string self = own_executable().string();
  const auto role = [&](const std::string& name, const std::string& kind, const std::string& url,
                        const std::vector<std::string>& flags) {
    RoleSpec spec;
    spec.name = name;
    spec.url = url;
    spec.argv = {self, "serve", kind, "--port", std::to_string(port_of(url))};
    spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
    spec.env = kComputeEnvironment;
    return spec;
  };
  std::vector<RoleSpec> specs;
  if (!dashboard_url.empty())
    specs.push_back(role("dashboard", "dashboard", dashboard_url, {"--run", record.folder().string()}));
  if (config.evaluates()) {
    const evaluate::EvaluatorOptions& options = config.evaluator;
    specs.push_back(role("evaluator", "evaluator", evaluator_url, to_flags(options)));
  }
  if (!config.generates()) return specs;

  RoleSpec router = role("router", "router", router_url, {});
  const bool own_engines = config.engine.external.empty();
  router.on_ready = [this, own_engines](bool restarted) {
    if (own_engines && !restarted) return;  // each adds itself once it is up
    for (const auto& url : engine_urls_) client.post_json(router_url + "/add_worker", {{"url", url}}).value();
  };
  specs.insert(specs.begin(), std::move(router));  // first: engines register with it
  rollout::ServiceOptions buffer = config.rollout.buffer;
  buffer.database = record.folder() / "buffer.sqlite";
  buffer.peers.router = router_url;
  buffer.peers.evaluator = evaluator_url;
  specs.push_back(role("buffer", "buffer", buffer_url, to_flags(buffer)));
  specs.back().argv.insert(specs.back().argv.end(), {"--tokenizer", model.string()});

  engine::EngineOptions engine_options = config.engine;
  engine_options.model = model;
  engine_options.device = config.model.device;
  engine_options.dtype = config.model.dtype;
  engine_options.share_device = config.share_device;
  for (size_t i = 0; own_engines && i < engine_urls_.size(); ++i) {
    const std::string url = engine_urls_[i];
    RoleSpec engine = role(fmt::format("engine-{}", i), "engine", url, to_flags(engine_options));
    engine.ready_timeout_s = 600;
    engine.on_ready = [this, url](bool) { register_engine(url); };
    specs.push_back(std::move(engine));
  }
  return specs;
}

// A fresh engine serves the weights it was started with: it gets the newest before the router may use it.
void RunContext::register_engine(const std::string& url) {
  PublishedWeights weights;
  {
    std::lock_guard lock(weights_mutex_);
    weights = weights_;
  }
  if (!weights.path.empty()) {
    net::HttpClient patient({.timeout_s = 600});
    const bool folder = fs::is_directory(weights.path);
    patient
        .post_json(url + (folder ? "/update_weights_from_disk" : "/update_weights_from_tensor"),
                   {{folder ? "model_path" : "path", weights.path},
                    {"weight_version", std::to_string(weights.version)},
                    {"checksums", weights.checksums}})
        .value();
  }
  // The router may be restarting itself; it adds all engines when it comes back.
  const auto added = client.post_json(router_url + "/add_worker", {{"url", url}});
  if (!added.ok()) log::warn("router did not take {}: {}", url, added.error().what());
}

void RunContext::start_services(const fs::path& model) {
  auto specs = service_specs(model);
  if (specs.empty()) return;
  // The first, the router, must be up before the engines.
  std::vector<RoleSpec> first(std::make_move_iterator(specs.begin()), std::make_move_iterator(specs.begin() + 1));
  supervisor->start(std::move(first));
  supervisor->start({std::make_move_iterator(specs.begin() + 1), std::make_move_iterator(specs.end())});
}

train::TrainConfig trainer_config(const RecipeConfig& config, const train::TrainConfig& section,
                                  const std::string& stage, const fs::path& model, const fs::path& run_folder,
                                  int64_t total_steps) {
  train::TrainConfig result = section;
  result.model = model.string();
  result.dtype = config.model.dtype;
  result.device = config.model.device;
  result.seed = config.seed;
  result.total_steps = total_steps;
  result.checkpoint = (run_folder / "checkpoints" / stage).string();
  result.run_id = checksum(fs::absolute(run_folder).string()).substr(0, 12) + "-" + stage;
  return result;
}

void RunContext::start_trainer(const std::string& stage, const train::TrainConfig& section, const fs::path& model,
                               int64_t total_steps) {
  const fs::path file = record.folder() / fmt::format("trainer-{}.yaml", stage);
  write_file_atomic(file, dump_config(trainer_config(config, section, stage, model, record.folder(), total_steps)));
  RoleSpec spec;
  spec.name = "trainer";
  spec.url = trainer_url;
  spec.env = kComputeEnvironment;
  spec.ready_timeout_s = 600;
  // --resume begins afresh where there is no checkpoint yet.
  spec.argv = {own_executable().string(),
               "serve",
               "trainer",
               "--config",
               file.string(),
               "--port",
               std::to_string(port_of(trainer_url)),
               "--resume"};
  if (config.share_device) spec.argv.push_back("--share-device");
  std::vector<RoleSpec> specs;
  specs.push_back(std::move(spec));
  supervisor->start(std::move(specs));
}

void RunContext::stop_trainer() { supervisor->stop("trainer"); }

void RunContext::install_weights(PublishedWeights weights) {
  {
    std::lock_guard lock(weights_mutex_);
    weights_ = weights;
  }
  const bool folder = fs::is_directory(weights.path);
  const Json reply = call("router", router_url + (folder ? "/update_weights_from_disk" : "/update_weights_from_tensor"),
                          {{folder ? "model_path" : "path", weights.path},
                           {"weight_version", std::to_string(weights.version)},
                           {"checksums", weights.checksums}},
                          600);
  if (!reply.value("success", false)) {
    // An engine that is down gets these weights when it comes back; one that is up and refuses them is an error.
    log::warn("weights version {} did not reach every engine: {}", weights.version, reply.dump());
    for (size_t i = 0; i < engine_urls_.size(); ++i)
      supervisor->wait_ready(fmt::format("engine-{}", i), Deadline::after(600));
    for (const auto& url : engine_urls_) {
      const Json info = get(url + "/get_weight_version");
      if (info.value("weight_version", "") != std::to_string(weights.version)) {
        fail(ErrorKind::kUnavailable, "{} serves weights version {} instead of {}: {}", url,
             info.value("weight_version", "?"), weights.version, reply.dump());
      }
    }
  }
}

void RunContext::interrupt() {
  interrupted_ = true;
  supervisor->stop_all();
}

Json RunContext::get(const std::string& url) { return client.get_json(url).value(); }

Json RunContext::call(const std::string& role, const std::string& url, const Json& body, double timeout_s) {
  net::HttpClient patient({.timeout_s = timeout_s});
  const Deadline deadline = Deadline::after(std::max(timeout_s, 300.0));
  while (true) {
    const int restarts = supervisor->restarts(role);
    auto reply = patient.post_json(url, body);
    if (reply.ok()) return std::move(reply).value();
    if (interrupted_) fail(ErrorKind::kUnavailable, "interrupted");
    const bool unreachable = reply.error().kind() == ErrorKind::kUnavailable;
    if (!unreachable || deadline.expired())
      throw Error(reply.error().kind(), fmt::format("{}: {}", role, reply.error().what()));
    supervisor->wait_ready(role, deadline);
    // A trainer that restarted may be at an earlier step: its caller must look.
    if (role == "trainer" && supervisor->restarts(role) != restarts)
      throw Error(ErrorKind::kUnavailable, fmt::format("{} was restarted", role));
  }
}

}  // namespace tritonforge::orchestrate
