#include "rollout/peers.h"

#include <algorithm>
#include <charconv>
#include <future>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/rng.h"
#include "contract/trace_ids.h"
#include "net/retry.h"
#include "net/version_barrier.h"
#include "net/wire.h"

namespace tritonforge::rollout {
namespace {

constexpr int kMaxInternalErrors = 3, kUnauthorized = 401;
// A hundred times an answer of 16,384 tokens with their log-probabilities; so many as are under way may be held at
// once.
constexpr uint64_t kLongestAnswer = uint64_t{64} << 20;

// SGLang answers versions as text ("3", or "default" before the first update, which counts as 0).
int64_t version_of(const Json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_string()) return 0;
  const auto text = value.get<std::string>();
  int64_t version = 0;
  std::from_chars(text.data(), text.data() + text.size(), version);
  return version;
}

// Of the server at a base URL; with OpenAI's names /health stands beside /v1, as vLLM, SGLang and llama.cpp have it.
std::string health_of(std::string base) {
  constexpr std::string_view kVersion = "/v1";
  if (base.ends_with(kVersion)) base.resize(base.size() - kVersion.size());
  return base + "/health";
}

net::Headers priority_of(const GroupSpec& group) {
  return {{kPriorityHeader, std::string(name_of(group.options.priority))}};
}

net::AsyncRequest post(const std::string& url, const Json& body, const std::string& request_id, double timeout_s,
                       const std::string& key) {
  constexpr double kConnectSeconds = 10;
  net::AsyncRequest request{.method = "POST",
                            .url = url,
                            .headers = {{"content-type", "application/json"}, {"x-request-id", request_id}},
                            .body = std::make_shared<const std::string>(body.dump()),
                            .connect_timeout_s = std::min(kConnectSeconds, timeout_s),
                            .timeout_s = timeout_s,
                            .longest_reply = kLongestAnswer};
  if (!key.empty()) request.headers["authorization"] = "Bearer " + key;
  return request;
}

struct Part {
  Completion completion;
  std::string finish;
};

Part part_from_json(const Json& reply, const std::string& where) {
  const Json meta = require<Json>(reply, "meta_info", where);
  Part part;
  const Json finish = require<Json>(meta, "finish_reason", where);
  part.finish = finish.is_object()   ? require<std::string>(finish, "type", where)
                : finish.is_string() ? finish.get<std::string>()
                                     : "";
  if (part.finish != "stop" && part.finish != "length" && part.finish != "abort") {
    fail(ErrorKind::kUsage, "{}: unknown finish_reason {}", where, finish.dump().substr(0, 80));
  }
  Completion& out = part.completion;
  out.truncated = part.finish == "length";
  const Json logprobs = optional_field(meta, "output_token_logprobs", Json::array(), where);
  for (const Json& entry : logprobs) {
    if (!entry.is_array() || entry.size() < 2 || !entry[0].is_number() || !entry[1].is_number_integer()) {
      fail(ErrorKind::kUsage, "{}: 'output_token_logprobs' must hold [logprob, token id, text]", where);
    }
    out.log_probs.push_back(entry[0].get<float>());
    out.tokens.push_back(entry[1].get<int64_t>());
  }
  const auto ids = optional_field(reply, "output_ids", out.tokens, where);
  if (ids != out.tokens) {
    fail(ErrorKind::kUsage, "{}: {} output_ids, but log-probabilities of {} (other) tokens", where, ids.size(),
         out.tokens.size());
  }
  if (meta.contains("output_token_weight_versions")) {
    for (const Json& version : require<std::vector<Json>>(meta, "output_token_weight_versions", where)) {
      out.weight_versions.push_back(version_of(version));
    }
  } else {
    out.weight_versions.assign(out.tokens.size(), version_of(optional_field(meta, "weight_version", Json(0), where)));
  }
  if (out.weight_versions.size() != out.tokens.size()) {
    fail(ErrorKind::kUsage, "{}: {} weight versions for {} tokens", where, out.weight_versions.size(),
         out.tokens.size());
  }
  return part;
}

}  // namespace

bool may_pass(int status) {
  return status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
}

void Gate::enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return free_ > 0; });
  --free_;
}

void Gate::leave() {
  {
    std::lock_guard lock(mutex_);
    ++free_;
  }
  changed_.notify_one();
}

Peers::Peers(PeerOptions options)
    : options_(std::move(options)),
      keys_(options_.longest_pause_s),
      silence_(client_, {options_.silence_timeout_s, options_.health_interval_s, options_.health_timeout_s}) {}

Result<net::Response> Peers::exchange(const std::shared_ptr<const net::AsyncRequest>& request,
                                      const std::string& health) const {
  const auto ended = std::make_shared<std::promise<Result<net::Response>>>();
  auto sent = client_.send(
      request, net::whole_reply([ended](Result<net::Response> reply) { ended->set_value(std::move(reply)); }));
  SilenceWatch::Wait wait(silence_, request->url, health, std::move(sent));
  auto response = ended->get_future().get();
  if (response.ok()) wait.answered();
  return response;
}

Result<Json> Peers::ask(const Call& call, const Json& body, std::stop_token stop) const {
  const std::string& what = call.what;
  const std::string& url = call.url;
  const auto request = std::make_shared<net::AsyncRequest>(
      post(url, body, call.request_id, call.timeout_s, call.key.value));
  request->headers["x-timeout-s"] = fmt::format("{}", call.timeout_s);
  request->headers["traceparent"] = traceparent_of(call.request_id.substr(0, call.request_id.rfind('-')),
                                                   call.request_id);
  request->headers.insert(call.headers.begin(), call.headers.end());
  int internal_errors = 0;
  bool barred = false;   // by the version barrier: the engines wait for newer weights, and nothing has failed
  bool refused = false;  // the key
  const auto attempt = [&]() -> Result<Json> {
    if (!keys_.enter(url, stop)) return Error(ErrorKind::kUnavailable, what + ": stopped");
    const auto response = exchange(request, call.health);
    if (!response.ok()) return response.error();
    const int status = response->status;
    if (status != kUnauthorized && !may_pass(status)) keys_.taken(url);
    if (status / 100 == 2) {
      try {
        return parse_json(response->body, url);
      } catch (const Error& error) {
        return Error(error.kind(), fmt::format("{}: {}", error.what(), net::said_by(*response)));
      }
    }
    // Behind a router it was the engine that answered.
    const auto worker = response->headers.find("x-worker");
    const bool routed = worker != response->headers.end();
    std::string reason = fmt::format("{} answered {}: {}", routed ? worker->second : url, status,
                                     net::said_by(*response));
    if (status == kUnauthorized) {
      reason += fmt::format("; the key for it is that of {}{}", call.key.place,
                            routed ? ", of the router where that has one" : "");
      refused = options_.awaits_key;
      if (refused) keys_.refused(url, reason);
    }
    barred = status == 503 && response->headers.contains(net::kMinWeightVersion);
    internal_errors += status == 500 ? 1 : 0;
    if (!may_pass(status) || internal_errors >= kMaxInternalErrors)
      return Error(ErrorKind::kUsage, what + ": " + reason);
    return Error(ErrorKind::kUnavailable, reason).with_retry_after(net::retry_after_of(*response));
  };
  const auto note = [&](const Error& error, double pause_s) {
    log::warn("{}: {}; again in {:.1f} s", what, error.what(), pause_s);
  };
  const auto again = [&](const Error& error) { return !barred && !refused && net::is_transient(error); };
  const net::Backoff backoff{options_.first_pause_s, options_.longest_pause_s, /*factor=*/2};
  for (int n = 0;; ++n) {
    auto reply = net::retry<Json>(what, Deadline::after(options_.patience_s), attempt,
                                  {.again = again, .backoff = backoff, .stop = stop, .on_pause = note});
    if (std::exchange(refused, false)) continue;
    // A trainer that resumes may train for hours until the barrier opens; patience is for failures, and begins after.
    if (!std::exchange(barred, false)) return reply;
    if (n == 0) log::info("{}: {}; it waits for them", what, reply.error().what());
    if (!net::pause(backoff.pause_s(n), stop)) return reply;
  }
}

Result<Completion> Peers::generate(const GroupSpec& group, const std::string& request_id,
                                   const std::vector<int64_t>& prompt, int64_t max_new_tokens, uint64_t seed,
                                   const std::vector<int64_t>& stop_tokens, std::stop_token stop) const {
  const std::string url = router_of(group) + "/generate";
  const SamplingOptions& sampling = group.options.sampling;
  std::optional<Deadline> deadline;  // begins with the first part: the version barrier may hold that up for hours
  // One seed for all parts: noise is a function of seed and position, so that a continuation draws what the aborted
  // request would have drawn. 63 bits, so that a reader with signed integers takes it, too.
  const uint64_t part_seed = seed >> 1;
  Completion whole;
  std::vector<int64_t> tokens = prompt;
  for (int part_index = 0;; ++part_index) {
    const auto sampled = static_cast<int64_t>(whole.tokens.size());
    const Json body = {{"input_ids", tokens},
                       {"rid", part_index == 0 ? request_id : fmt::format("{}+{}", request_id, part_index)},
                       {"session_id", group.id},
                       {"return_logprob", true},
                       {"sampling_params",
                        {{"temperature", sampling.temperature},
                         {"top_p", sampling.top_p},
                         {"top_k", sampling.top_k},
                         {"min_p", sampling.min_p},
                         {"max_new_tokens", max_new_tokens - sampled},
                         {"stop_token_ids", stop_tokens},
                         {"no_stop_trim", true},
                         {"sampling_seed", part_seed}}}};
    const std::string what = "generate " + request_id;
    auto reply = ask({.what = what,
                      .request_id = request_id,
                      .url = url,
                      .timeout_s = options_.generate_timeout_s,
                      .key = own_key(),
                      .headers = priority_of(group),
                      .health = health_of(router_of(group))},
                     body, stop);
    if (!reply.ok()) return reply.error();
    if (!deadline) deadline = Deadline::after(options_.patience_s + options_.generate_timeout_s);
    Part part;
    try {
      part = part_from_json(*reply, url);
    } catch (const Error& error) {
      return error;
    }
    const Completion& got = part.completion;
    if (static_cast<int64_t>(got.tokens.size()) > max_new_tokens - sampled) {
      return Error(ErrorKind::kUsage, fmt::format("{}: {} tokens where at most {} were asked for", what,
                                                  got.tokens.size(), max_new_tokens - sampled));
    }
    whole.tokens.insert(whole.tokens.end(), got.tokens.begin(), got.tokens.end());
    whole.log_probs.insert(whole.log_probs.end(), got.log_probs.begin(), got.log_probs.end());
    whole.weight_versions.insert(whole.weight_versions.end(), got.weight_versions.begin(), got.weight_versions.end());
    tokens.insert(tokens.end(), got.tokens.begin(), got.tokens.end());
    if (part.finish != "abort") {
      whole.truncated = got.truncated;
      return whole;
    }
    if (static_cast<int64_t>(whole.tokens.size()) >= max_new_tokens) {
      whole.truncated = true;
      return whole;
    }
    if (deadline->expired())
      return Error(ErrorKind::kUnavailable, fmt::format("{}: the engine aborts it again and again", what));
    if (!net::pause(options_.first_pause_s, stop)) return Error(ErrorKind::kUnavailable, what + ": stopped");
  }
}

namespace {

// SGLang's, vLLM's and DeepSeek's name for it, or that of newer vLLMs and of OpenRouter.
std::string reasoning_of(const Json& message, const std::string& where) {
  const std::string text = optional_field<std::string>(message, "reasoning_content", "", where);
  return text.empty() ? optional_field<std::string>(message, "reasoning", "", where) : text;
}

Peers::Reply chat_reply_from_json(const Json& reply, const std::string& where) {
  const Json choices = require_list(reply, "choices", where);
  if (choices.empty()) fail(ErrorKind::kUsage, "{}: 'choices' is empty", where);
  const Json message = require<Json>(choices[0], "message", where);
  // A null content: the model said nothing (or called a tool), which is an answer without code.
  const std::string content = optional_field<std::string>(message, "content", "", where);
  const std::string reasoning = reasoning_of(message, where);
  const bool truncated = optional_field<std::string>(choices[0], "finish_reason", "", where) == "length";
  if (reasoning.empty()) return {content, truncated};
  if (content.empty() && truncated) return {"<think>\n" + reasoning, truncated};  // it never came to an end
  return {
      tokenizer::thought_text(reasoning) + content.substr(std::min(content.size(), content.find_first_not_of('\n'))),
      truncated};
}

}  // namespace

Result<Peers::Reply> Peers::chat(const GroupSpec& group, const std::string& request_id,
                                 const std::vector<tokenizer::Message>& messages, uint64_t seed,
                                 std::stop_token stop) const {
  const SamplingOptions& sampling = group.options.sampling;
  const std::string url = router_of(group) + "/chat/completions";
  Json body = {{"model", group.options.chat_model},     {"messages", Json::array()},
               {"temperature", sampling.temperature},   {"top_p", sampling.top_p},
               {"max_tokens", sampling.max_new_tokens}, {"seed", seed >> 33}};  // 31 bits: some servers take no more
  for (const tokenizer::Message& message : messages)
    body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  // What is not in OpenAI's own API is sent only where it was asked for: servers refuse fields that they do not know.
  if (sampling.top_k > 0) body["top_k"] = sampling.top_k;
  if (sampling.min_p > 0) body["min_p"] = sampling.min_p;
  if (!group.options.enable_thinking) body["chat_template_kwargs"] = {{"enable_thinking", false}};
  auto reply = ask({.what = "chat " + request_id,
                    .request_id = request_id,
                    .url = url,
                    .timeout_s = options_.generate_timeout_s,
                    .key = {options_.chat_api_key, "OPENAI_API_KEY of the environment"},
                    .headers = priority_of(group),
                    .health = health_of(router_of(group))},
                   body, stop);
  if (!reply.ok()) return reply.error();
  try {
    return chat_reply_from_json(*reply, url);
  } catch (const Error& error) {
    return error;
  }
}

Json evaluation_request(const std::string& problem_id, const std::string& problem_source, const std::string& candidate,
                        uint64_t seed, const EvaluationOptions& options) {
  Json body = to_json(options);
  body["problem"] = {{"id", problem_id}, {"source", problem_source}};
  body["candidate"] = candidate;
  body["seed"] = seed;
  return body;
}

namespace {

constexpr double kPrepareSeconds = 2;  // it is answered at once

// One seed for a group: its samples are judged on the same inputs, and equal candidates share a cached verdict.
Json request_of(const GroupSpec& group, const std::string& code) {
  return evaluation_request(group.problem_id, group.problem_source, code, Rng::derive(group.seed, "evaluate") >> 33,
                            group.options.evaluate);
}

}  // namespace

void Peers::prepare(const GroupSpec& group, const std::string& request_id) const {
  Json body = request_of(group, "");
  body.erase("candidate");
  const std::string url = evaluator_of(group) + "/v2/problems";
  const auto response = exchange(
      std::make_shared<net::AsyncRequest>(post(url, body, request_id, kPrepareSeconds, options_.api_key)),
      /*health=*/"");
  if (!response.ok()) log::debug("{}: {}", url, response.error().what());
  else if (response->status / 100 != 2) log::debug("{} answered {}", url, response->status);
}

Result<Verdict> Peers::evaluate(const GroupSpec& group, const std::string& request_id, const std::string& code,
                                std::stop_token stop) const {
  auto reply = ask({.what = "evaluate " + group.id,
                    .request_id = request_id,
                    .url = evaluator_of(group) + "/v2/evaluations",
                    .timeout_s = group.options.evaluate.timeout_s + options_.evaluate_margin_s,
                    .key = own_key()},
                   request_of(group, code), stop);
  if (!reply.ok()) return reply.error();
  try {
    return verdict_from_json(*reply);
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace tritonforge::rollout
