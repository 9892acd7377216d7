#include "orchestrate/preflight.h"

#include <algorithm>
#include <set>

#include "base/cuda_driver.h"
#include "base/hub.h"
#include "base/log.h"
#include "base/text.h"
#include "net/bulk.h"
#include "net/http.h"
#include "net/retry.h"
#include "orchestrate/inputs.h"
#include "rollout/peers.h"
#include "rollout/prompts.h"
#include "tokenizer/chat_codec.h"

namespace tritonforge::orchestrate {
namespace {

// Those of this machine; the other hosts' are checked by the processes that get them.
void check_devices(const RecipeConfig& config) {
  const Layout layout = config.layout();
  if (layout.given) {
    std::set<int64_t> gpus;
    const auto add = [&](const Place& place) {
      if (place.host == kHead) gpus.insert(place.gpus.begin(), place.gpus.end());
    };
    if (config.trains()) std::ranges::for_each(layout.actor, add);
    if (config.serves()) std::ranges::for_each(layout.engines, add);
    if (config.evaluates()) add(layout.eval);
    for (const int64_t id : gpus) require_device(fmt::format("cuda:{}", id));
    return;
  }
  const bool computes = config.engine.external.empty() && !config.model.is_chat();
  if (config.has_stage("sft") || config.has_stage("rl") || computes) require_device(config.model.device);
  if (!config.evaluates() || !config.evaluator.on_gpu()) return;
  const std::string& device = config.evaluator.device;
  if (device.starts_with("cuda")) require_device(device);
  else cuda_driver();  // "cpu": the first GPU; or one's UUID
}

// A prompt that does not fit would fail every one of its samples.
void check_prompts(const RecipeConfig& config, const char* key, const std::vector<Problem>& problems,
                   const tokenizer::ChatCodec& codec) {
  std::pair<const char*, int64_t> least{"rollout.max_context", config.rollout.max_context};
  const auto bound = [&](const char* name, int64_t tokens) {
    if (config.engine.external.empty() && tokens > 0 && tokens < least.second) least = {name, tokens};
  };
  bound("engine.max_context", config.engine.max_context);
  bound("engine.kv_cache_tokens", config.engine.kv_cache_tokens);
  const auto& [limit, room] = least;
  for (const Problem& problem : problems) {
    const auto tokens = codec.opening(
        rollout::first_messages(config.rollout.prompt, problem, config.evaluator.request.backend),
        config.rollout.enable_thinking);
    if (static_cast<int64_t>(tokens.size()) < room) continue;
    fail(ErrorKind::kUsage, "{}: the prompt of '{}' has {} tokens, and {} of {} leaves no room for an answer", key,
         problem.id, tokens.size(), limit, room);
  }
}

// Any answer will do: not every server lists its models.
void check_chat_server(const std::string& url) {
  const auto reply = net::HttpClient({.timeout_s = 20}).get(url + "/models");
  if (!reply.ok()) fail(reply.error().kind(), "model.chat_url: {}", reply.error().what());
}

// One that does not answer yet is waited for by the run. What answers as no engine does is none later, either.
void check_engine(const std::string& url) {
  const std::string what = url + "/health";
  const auto reply = net::HttpClient({.timeout_s = 5}).get(what);
  std::string said;
  if (!reply.ok() && !net::is_transient(reply.error())) said = reply.error().what();
  if (reply.ok() && reply->status / 100 != 2 && !rollout::may_pass(reply->status))
    said = fmt::format("GET {}: {}", what, reply->status);
  if (!said.empty()) fail(ErrorKind::kUsage, "engine.external: {}: is this the address of another server?", said);
}

}  // namespace

// What a placement may say and no process can do yet.
void check_degrees(const RecipeConfig& config) {
  const Layout layout = config.layout();
  const Degrees& actor = layout.actor_degrees;
  const Degrees& engine = layout.engine_degrees;
  if (config.trains()) actor.dims().validate();
  if (config.trains() && actor.ep > 1)
    fail(ErrorKind::kUnsupported, "placement.actor.ep {}: a dense model has no experts to share out: ep is 1",
         actor.ep);
  if (config.trains() && actor.pp_chunks > 1 && !layout.actor.front().gpus.empty())
    fail(ErrorKind::kUnsupported, "placement.actor.pp_chunks {}: on GPUs a stage is one chunk of layers yet",
         actor.pp_chunks);
  if (config.serves() && engine.cp * engine.pp * engine.pp_chunks * engine.ep > 1)
    fail(ErrorKind::kUnsupported, "placement.rollout: an engine's ranks are of tp alone: cp, pp and ep are 1");
  if (config.serves() && !engine::EngineOptions::is_degree(engine.tp))
    fail(ErrorKind::kUsage, "'placement.rollout.tp' is {}: 1, 2, 4 or 8 ranks", engine.tp);
}

void check_plan(const RecipeConfig& config) {
  if (net::named_bulk_tls() && config.placement.weights == "group") {
    fail(ErrorKind::kUsage,
         "'placement.weights' group: {} asks for TLS, and rounds go over Gloo or NCCL, which encrypt nothing; tcp does",
         net::kBulkCert);
  }
  if (config.placement.given()) check_degrees(config);
  const fs::path model = resolve_path(config.model.path);
  if (!config.model.is_chat() && !fs::exists(model))
    fail(ErrorKind::kNotFound, "model.path: no such folder or file: {}{}", config.model.path,
         pull_hint(config.model.path));
  check_devices(config);
  const DataSection& data = config.data;
  const bool sft = config.has_stage("sft");
  if (sft && !data.text.empty() && !fs::is_regular_file(resolve_path(data.text)))
    fail(ErrorKind::kNotFound, "data.text: no such file: {}{}", data.text, pull_hint(data.text));
  if (sft && !data.conversations.empty()) conversations(config);
  if (config.has_stage("data") || (sft && data.from_pairs())) training_pairs(config);
  if (!config.generates()) return;
  if (config.model.is_chat()) {  // what its prompts take is the server's to say
    bench_problems(config);
    check_chat_server(config.model.chat_url);
    return;
  }
  std::ranges::for_each(config.engine.external, check_engine);
  const auto codec = tokenizer::load_chat_codec(model);
  if (config.has_stage("rl")) {
    check_prompts(config, "rl.problems", rl_problems(config), *codec);
    if (config.rl.validation.every > 0)
      check_prompts(config, "rl.validation.problems", validation_problems(config), *codec);
  }
  if (config.has_stage("bench")) check_prompts(config, "bench.problems", bench_problems(config), *codec);
}

std::vector<std::string> doubts(const RecipeConfig& config) {
  std::vector<std::string> found;
  const Layout layout = config.layout();
  const auto elsewhere = [&](const Place& rank) { return rank.host != layout.actor.front().host; };
  if (net::named_bulk_tls() && std::ranges::any_of(layout.actor, elsewhere)) {
    found.push_back(fmt::format(
        "{} encrypts weights on their way to engines; what the trainer's ranks on several hosts send each other is not "
        "encrypted",
        net::kBulkCert));
  }
  if (!config.has_stage("rl")) return found;
  const SamplingOptions& sampling = config.rl.sampling;
  const auto cuts = [&](const char* key, double value) {
    found.push_back(
        fmt::format("rl.sampling.{} {}: tokens are drawn from what is left of a distribution, and trained on "
                    "by ratios of the whole one, so the gradient is biased",
                    key, value));
  };
  if (sampling.top_p < 1) cuts("top_p", sampling.top_p);
  if (sampling.top_k > 0) cuts("top_k", static_cast<double>(sampling.top_k));
  if (sampling.min_p > 0) cuts("min_p", sampling.min_p);
  const RlSection& rl = config.rl;
  const int64_t commits = rl.replay.steps + (rl.validation.every > 0 ? rl.replay.steps / rl.validation.every + 1 : 0);
  if (const int64_t kept = config.rollout.buffer.retention.steps; rl.replay.groups > 0 && commits > kept)
    found.push_back(fmt::format(
        "rl.replay.steps {}: with those of rl.validation {} leases are committed meanwhile, and tokens stay "
        "for rollout.keep_steps = {}: groups of fewer steps are replayed",
        rl.replay.steps, commits, kept));
  if (config.engine.kv_cache_dtype == engine::CacheDtype::kFp8)
    found.push_back(
        "engine.kv_cache_dtype fp8_e4m3: tokens are drawn from log-probs that differ from the trainer's, with "
        "models/tiny-base by 0.023 in the mean, with Qwen2.5-Coder-0.5B by 0.073 (docs/performance.md)");
  if (config.engine.weight_dtype == engine::WeightDtype::kFp8)
    found.push_back(
        "engine.weight_dtype fp8_e4m3: tokens are drawn from log-probs that differ from the trainer's, with "
        "models/tiny-base by 0.032 in the mean (docs/performance.md)");
  return found;
}

std::vector<std::string> doubts_of_problems(const RecipeConfig& config) {
  std::vector<std::string> found;
  const auto look = [&](const char* key, const std::string& path) {
    const auto skipped = dataset::skipped_files(resolve_path(path));
    if (!skipped.empty())
      found.push_back(fmt::format("{}: skipped in {}, hidden or with an ending not in small letters: {}", key, path,
                                  first_of(skipped)));
  };
  if (config.has_stage("bench")) look("bench.problems", config.bench.problems);
  if (!config.has_stage("rl")) return found;
  look("rl.problems", config.rl.problems);
  if (config.rl.validation.every > 0) look("rl.validation.problems", config.rl.validation.problems);
  std::set<std::string> trained;
  for (const Problem& problem : rl_problems(config)) trained.insert(problem.source);
  const auto compare = [&](const char* key, const std::vector<Problem>& measured) {
    const auto both = std::ranges::count_if(measured, [&](const Problem& one) { return trained.contains(one.source); });
    if (both > 0)
      found.push_back(
          fmt::format("{}: {} of {} problems are in rl.problems, too: what is measured on them is not held "
                      "out",
                      key, both, measured.size()));
  };
  if (config.has_stage("bench")) compare("bench.problems", bench_problems(config));
  if (config.rl.validation.every > 0) compare("rl.validation.problems", validation_problems(config));
  return found;
}

void warn_of_problems(const RecipeConfig& config) {
  for (const std::string& doubt : doubts_of_problems(config)) log::warn("{}", doubt);
}

}  // namespace tritonforge::orchestrate
