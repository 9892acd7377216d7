#include "rollout/legacy.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/checksum.h"
#include "base/log.h"
#include "base/rng.h"
#include "contract/prompt_message.h"
#include "rollout/prompts.h"
#include "rollout/text.h"

namespace tritonforge::rollout {
namespace {

const std::vector<std::string> kTaskTypes = {"kernelbench", "kernelbench_multiturn"};
// The legacy trainer's pause between a written batch and its next look is 3 to 5 s; a reader that waits asks
// for its own time-out.
constexpr double kDefaultReadTimeout = 60;
constexpr double kLookEvery = 1;  // seconds: a group also becomes usable by nobody writing to it

Json reply_shape(bool success, const std::string& message, Json data) {
  return {{"success", success}, {"message", message}, {"data", std::move(data)}};
}

net::Response refusal(const std::exception& error) {
  return net::Response::error(error, reply_shape(false, error.what(), Json()));
}

int64_t lenient_integer(const Json& object, const char* key, int64_t fallback, const std::string& where) {
  const double value = lenient_number(object, key, static_cast<double>(fallback), where);
  if (value != std::floor(value) || std::fabs(value) > 1e15)
    fail(ErrorKind::kUsage, "{}: field '{}' must be an integer, not {}", where, key, value);
  return static_cast<int64_t>(value);
}

RolloutOptions options_from_payload(const Json& payload, const std::string& task, const std::string& where) {
  RolloutOptions options;
  options.reward = "tritonforge_code";
  options.prompt = PromptStyle::kKernelBench;
  options.max_turns = task == "kernelbench" ? 1 : lenient_integer(payload, "max_turns", 3, where);
  options.gamma = lenient_number(payload, "gamma", 0.4, where);
  options.router = optional_field(payload, "remote_engine_url", std::string(), where);
  options.evaluator = optional_field(payload, "remote_eval_server_url", std::string(), where);
  while (options.router.ends_with('/')) options.router.pop_back();
  if (options.router.ends_with("/v1")) options.router.resize(options.router.size() - 3);
  const Json sampling = optional_field(payload, "sampling_params", Json::object(), where);
  options.sampling.temperature = lenient_number(sampling, "temperature", 1.0, where);
  options.sampling.top_p = lenient_number(sampling, "top_p", 1.0, where);
  options.sampling.max_new_tokens = lenient_integer(sampling, "max_tokens",
                                                    lenient_integer(payload, "max_tokens", 4096, where), where);
  options.max_context = std::max<int64_t>(options.max_context,
                                          options.max_turns * (options.sampling.max_new_tokens + 8192));
  return rollout_options_from_json(to_json(options), where);  // the same checks as for /v2
}

GroupSpec group_from_line(const Json& line, const RolloutOptions& options, int64_t n_samples,
                          const std::string& where) {
  GroupSpec group;
  group.problem_id = require<std::string>(line, "instance_id", where);
  group.problem_source = require<std::string>(line, "label", where);
  group.n_samples = n_samples;
  group.options = options;
  group.legacy = true;
  for (const Json& message : require<std::vector<Json>>(line, "prompt", where))
    group.messages.push_back(prompt_message(message, where));
  if (group.messages.empty()) fail(ErrorKind::kUsage, "{}: 'prompt' has no message", where);
  group.extra = optional_field(line, "extra_info", Json::object(), where);
  return group;
}

// A trainer that starts again names what it has of its earlier rollouts, and asks for the same otherwise.
bool is_of_one_trainer(Json one, Json other) {
  for (Json* payload : {&one, &other}) payload->erase("skip_instance_ids");
  return one == other;
}

Json eval_result(const Turn& turn) {
  return {{"compiled", turn.verdict.compiled},
          {"correctness", turn.verdict.correct},
          {"runtime", turn.verdict.runtime.median},
          {"speedup", turn.verdict.speedup},
          {"error_message",
           turn.verdict.correct ? "" : fmt::format("{}: {}", name_of(turn.verdict.fault), turn.verdict.diagnostics)}};
}

// The legacy trainer takes the newest groups by `timestamp`, a number as text, and logs `round_number`.
Json extra_info(const GroupSpec& group, const Trajectory& trajectory) {
  Json info = group.extra.is_object() ? group.extra : Json::object();
  double ended = 0;
  for (const Turn& turn : trajectory.turns)
    ended = std::max(ended, std::max(turn.generate_begun + turn.generate_s, turn.evaluate_begun + turn.evaluate_s));
  info["timestamp"] = fmt::format("{:.3f}", ended);
  info["round_number"] = trajectory.turns.size();
  return info;
}

Json meta_info(const std::vector<std::vector<Json>>& groups) {
  double sum = 0, squares = 0, low = 0, high = 0;
  int64_t count = 0;
  Json finished = Json::array();
  for (const auto& items : groups) {
    for (const Json& item : items) {
      const double reward = item["raw_reward"].get<double>();
      low = count == 0 ? reward : std::min(low, reward);
      high = count == 0 ? reward : std::max(high, reward);
      sum += reward;
      squares += reward * reward;
      ++count;
    }
    if (!items.empty()) finished.push_back(items[0]["instance_id"]);
  }
  const double mean = count == 0 ? 0 : sum / static_cast<double>(count);
  return {{"total_samples", count},
          {"num_groups", groups.size()},
          {"avg_group_size", groups.empty() ? 0 : static_cast<double>(count) / static_cast<double>(groups.size())},
          {"avg_reward", mean},
          {"reward_std", count == 0 ? 0 : std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean * mean))},
          {"reward_min", low},
          {"reward_max", high},
          {"finished_groups", std::move(finished)}};
}

}  // namespace

double lenient_number(const Json& object, const char* key, double fallback, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  if (found->is_number()) return found->get<double>();
  if (found->is_string()) {
    const auto text = found->get<std::string>();
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  }
  fail(ErrorKind::kUsage, "{}: field '{}' must be a number, not {}", where, key, found->dump().substr(0, 80));
}

LegacyRollout legacy_rollout_from_payload(const Json& payload) {
  const std::string where = "POST /start_rollout";
  const auto task = require<std::string>(payload, "task_type", where);
  if (std::find(kTaskTypes.begin(), kTaskTypes.end(), task) == kTaskTypes.end()) {
    fail(ErrorKind::kUsage, "{}: unknown task_type '{}'{}", where, task, nearest_hint(task, kTaskTypes));
  }
  const auto options = options_from_payload(payload, task, where);
  LegacyRollout rollout;
  rollout.passes = lenient_integer(payload, "num_epoch", rollout.passes, where);
  rollout.seed = static_cast<uint64_t>(lenient_integer(payload, "seed", static_cast<int64_t>(rollout.seed), where));
  const int64_t repeats = lenient_integer(payload, "num_repeat_per_sample", 8, where);
  if (repeats < 1 || repeats > 4096)
    fail(ErrorKind::kUsage, "{}: num_repeat_per_sample must be 1 to 4096, not {}", where, repeats);
  const auto skipped = optional_field(payload, "skip_instance_ids", std::vector<std::string>{}, where);
  const auto file = require<std::string>(payload, "input_file", where);

  const std::string text = read_file(file);
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}:{}", file, number);
    GroupSpec group = group_from_line(parse_json(line, place), options, repeats, place);
    if (std::find(skipped.begin(), skipped.end(), group.problem_id) == skipped.end())
      rollout.prompts.push_back(std::move(group));
  }
  return rollout;
}

std::vector<GroupSpec> LegacyRollout::pass(int64_t number) const {
  std::vector<GroupSpec> groups = prompts;
  Rng rng(Rng::derive(seed, static_cast<uint64_t>(number)));
  rng.shuffle(groups);
  for (GroupSpec& group : groups) {
    group.id = number == 0 ? group.problem_id : fmt::format("{}~{}", group.problem_id, number);
    group.seed = Rng::derive(seed, group.id);
  }
  return groups;
}

size_t LegacyRollout::samples_of_a_pass() const {
  size_t samples = 0;
  for (const GroupSpec& group : prompts) samples += static_cast<size_t>(group.n_samples);
  return samples;
}

Json legacy_item(const GroupSpec& group, const Trajectory& trajectory) {
  Json messages = Json::array(), history = Json::array(), rewards = Json::array();
  for (const tokenizer::Message& message : opening_messages(group))
    messages.push_back({{"role", message.role}, {"content", message.content}});
  for (size_t t = 0; t < trajectory.turns.size(); ++t) {
    const Turn& turn = trajectory.turns[t];
    if (turn.status == TurnStatus::kFailed) continue;  // an error text must never be trained as an answer
    messages.push_back({{"role", "assistant"}, {"content", turn.text}});
    if (t + 1 < trajectory.turns.size()) {
      messages.push_back({{"role", "user"}, {"content", feedback_message(group.options.prompt, turn.verdict).content}});
    }
    history.push_back(
        {{"turn_idx", t}, {"kernel_code", turn.code}, {"eval_result", eval_result(turn)}, {"reward", turn.reward}});
    rewards.push_back(turn.reward);
  }
  const Verdict last = history.empty() ? Verdict{} : trajectory.turns[history.size() - 1].verdict;
  Json details;
  if (group.options.max_turns == 1) {
    details = to_kernel_exec_result(last);
    details["speedup"] = last.speedup;
    details["baseline_runtime"] = last.ref_runtime.median;
    details["eval_status"] = history.empty() ? "failed" : "completed";
    details["eval_response"] = last.diagnostics;
  } else {
    details = {{"final_compiled", last.compiled},       {"final_correctness", last.correct},
               {"final_runtime", last.runtime.median},  {"final_speedup", last.speedup},
               {"num_turns", history.size()},           {"turn_rewards", rewards},
               {"aggregated_return", trajectory.reward}};
  }
  Json item = {{"uid", trajectory.id},
               {"instance_id", group.problem_id},
               {"messages", std::move(messages)},
               {"reward", trajectory.reward},
               {"extra_info", extra_info(group, trajectory)},
               {"execution_details", std::move(details)}};
  if (group.options.max_turns > 1) {
    item["multi_turn_data"] = {{"history", std::move(history)},
                               {"turn_rewards", std::move(rewards)},
                               {"aggregated_return", trajectory.reward},
                               {"gamma", group.options.gamma},
                               {"max_turns", group.options.max_turns}};
  }
  return item;
}

void normalise_rewards(std::vector<Json>& items) {
  double sum = 0, squares = 0;
  for (Json& item : items) {
    item["raw_reward"] = item["reward"];
    sum += item["reward"].get<double>();
  }
  const double n = static_cast<double>(items.size());
  for (const Json& item : items) squares += std::pow(item["reward"].get<double>() - sum / n, 2);
  const double std = items.empty() ? 0 : std::sqrt(squares / n);
  for (Json& item : items) item["reward"] = std < 1e-8 ? 0.0 : (item["reward"].get<double>() - sum / n) / (std + 1e-8);
}

Legacy::Legacy(RolloutService& service) : service_(service), readers_(refusal, kLookEvery) {
  kept_ = service_.store().setting("rollout", "");
  if (kept_.empty()) return;
  Json all = parse_json(kept_, "the rollouts under way");
  if (all.is_object()) all = Json::array({all});  // one alone, as buffers before this one kept it
  for (const Json& kept : all) {
    try {
      const Json& payload = kept.at("payload");
      under_way_.push_back({payload, legacy_rollout_from_payload(payload), kept.at("next_pass")});
    } catch (const std::exception& error) {  // its prompt file may be gone
      log::error("/start_rollout: its passes do not go on: {}", error.what());
    }
  }
  begin_passes();
}

void Legacy::groups_changed() {
  readers_.look_again();
  begin_passes();
}

net::Response Legacy::start_rollout(const Json& body) {
  const std::string where = "POST /start_rollout";
  const LegacyRollout rollout = legacy_rollout_from_payload(body);
  const double timeout_s = lenient_number(body, "group_timeout_seconds", 300, where);
  const double ratio = lenient_number(body, "min_timeout_group_size_ratio", 0.7, where);
  std::unique_lock lock(passes_mutex_);
  // Refused, it leaves those before it as they are.
  const auto result = service_.start_groups(rollout.pass(0));
  Store& store = service_.store();
  store.set_setting("group_size", std::to_string(lenient_integer(body, "num_repeat_per_sample", 8, where)));
  store.set_setting("group_timeout_s", fmt::format("{}", timeout_s));
  store.set_setting("min_timeout_ratio", fmt::format("{}", ratio));
  std::erase_if(under_way_, [&](const UnderWay& one) { return is_of_one_trainer(one.payload, body); });
  under_way_.push_back({body, rollout, /*next_pass=*/1});
  lock.unlock();
  begin_passes();
  const std::string message = fmt::format("{} groups started, {} were there already; the first of {} passes",
                                          result.accepted.size(), result.known.size(), rollout.passes);
  log::info("/start_rollout: {}", message);
  return net::Response::json(
      reply_shape(true, message, {{"data", Json::array()}, {"meta_info", {{"num_groups", result.accepted.size()}}}}));
}

void Legacy::begin_passes() {
  beginning_.run([this] { begin_those_with_room(); });
}

// A pass begins while fewer samples wait than one of each rollout has; the rollouts take turns.
void Legacy::begin_those_with_room() {
  const std::lock_guard lock(passes_mutex_);
  try {
    while (true) {
      std::erase_if(under_way_, [](const UnderWay& one) { return one.ended(); });
      size_t room = 0;  // none where there is no rollout
      for (const UnderWay& one : under_way_) room += one.rollout.samples_of_a_pass();
      const auto state = service_.state();
      if (state.stopping || state.queued >= room) break;
      UnderWay& next = under_way_.front();
      service_.start_groups(next.rollout.pass(next.next_pass));
      ++next.next_pass;
      std::ranges::rotate(under_way_, under_way_.begin() + 1);
    }
    keep_passes();
  } catch (const std::exception& error) {  // full, of groups or the disk: the next group that ends begins it
    log::warn("/start_rollout: the next pass does not begin yet: {}", error.what());
  }
}

void Legacy::keep_passes() {
  Json all = Json::array();
  for (const UnderWay& one : under_way_) all.push_back({{"payload", one.payload}, {"next_pass", one.next_pass}});
  const std::string now = all.empty() ? "" : all.dump();
  if (now == kept_) return;
  service_.store().set_setting("rollout", now);
  kept_ = now;
}

net::Response Legacy::write(const Json& body) {
  const std::string where = "POST /buffer/write";
  const auto instance = require<std::string>(body, "instance_id", where);
  require<Json::array_t>(body, "messages", where);
  const double reward = lenient_number(body, "reward", std::nan(""), where);
  if (!std::isfinite(reward)) fail(ErrorKind::kUsage, "{}: field 'reward' is missing", where);
  Json item = body;
  item["reward"] = reward;
  // Without a uid of its own, a repeat of the same bytes is the same item.
  if (!item.contains("uid")) item["uid"] = checksum(body.dump());
  const auto uid = item["uid"].is_string() ? item["uid"].get<std::string>() : item["uid"].dump();
  const bool fresh = service_.store().write_item(uid, instance, reward, item.dump());
  if (fresh) groups_changed();
  return net::Response::json(reply_shape(true, fresh ? "written" : "was there already",
                                         {{"data", Json::array({std::move(item)})}, {"meta_info", Json::object()}}));
}

std::optional<net::Response> Legacy::batch(int64_t batch_size, bool take, const Deadline& deadline) {
  Store& store = service_.store();
  Store::LegacyRules rules;
  rules.group_size = std::max<int64_t>(1, std::stoll(store.setting("group_size", "8")));
  rules.timeout_s = std::stod(store.setting("group_timeout_s", "300"));
  rules.min_timeout_ratio = std::stod(store.setting("min_timeout_ratio", "0.7"));
  const auto found = store.legacy_groups(batch_size, rules, unix_seconds());
  int64_t held = 0;
  for (const auto& group : found) held += static_cast<int64_t>(group.size());
  if (held == 0 || (take && held < batch_size)) {
    if (!deadline.expired()) return std::nullopt;
    const std::string message = held == 0 ? "no complete group yet"
                                          : fmt::format("{} items complete, {} asked for; nothing was taken", held,
                                                        batch_size);
    return net::Response::json(reply_shape(false, message, {{"data", Json::array()}, {"meta_info", Json::object()}}));
  }
  std::vector<std::vector<Json>> groups;
  Json data = Json::array();
  for (const auto& group : found) {
    std::vector<Json> items;
    for (const std::string& text : group.bodies) items.push_back(parse_json(text, "stored item"));
    for (const Trajectory& trajectory : group.trajectories) items.push_back(legacy_item(group.group, trajectory));
    normalise_rewards(items);
    for (const Json& item : items) data.push_back(item);
    groups.push_back(std::move(items));
  }
  Json meta = meta_info(groups);
  if (take) meta["lease_id"] = store.take_legacy(found);
  return net::Response::json(reply_shape(true, fmt::format("{} items in {} groups", held, found.size()),
                                         {{"data", std::move(data)}, {"meta_info", std::move(meta)}}));
}

Json Legacy::stats() {
  const auto counts = service_.store().legacy_counts();
  return {{"current_size", counts.waiting},
          {"max_size", 0},
          {"total_written", counts.written},
          {"total_read", counts.read}};
}

void Legacy::add_routes(net::HttpServer& server) {
  const auto route = [&](const std::string& method, const std::string& path, net::Handler handler) {
    server.route(method, path, [handler = std::move(handler)](const net::Request& request) {
      try {
        return handler(request);
      } catch (const std::exception& error) {
        return refusal(error);
      }
    });
  };
  const auto reading = [&](const std::string& method, const std::string& path, bool take,
                           const std::function<Deadline(const Json& body)>& deadline) {
    server.route_async(method, path, [=, this](const net::Request& request, const net::ResponderPtr& reader) {
      try {
        Json body = request.json();
        if (const auto found = request.query.find("batch_size"); method == "GET" && found != request.query.end())
          body["batch_size"] = found->second;
        const int64_t batch_size = lenient_integer(body, "batch_size", -1, method + " " + path);
        readers_.ask([=, this](const Deadline& until) { return batch(batch_size, take, until); }, deadline(body),
                     reader);
      } catch (const std::exception& error) {
        reader->send(refusal(error));
      }
    });
  };
  route("POST", "/start_rollout", [this](const net::Request& r) { return start_rollout(r.json()); });
  route("POST", "/buffer/write", [this](const net::Request& r) { return write(r.json()); });
  const auto at_once = [](const Json&) { return Deadline::after(0); };
  reading("POST", "/get_rollout_data", /*take=*/true, at_once);
  reading("POST", "/buffer/read", /*take=*/true, [](const Json& body) {
    const bool wait = optional_field(body, "wait", body.contains("timeout"), "POST /buffer/read");
    if (!wait) return Deadline::after(0);
    return Deadline::after(
        std::clamp(lenient_number(body, "timeout", kDefaultReadTimeout, "POST /buffer/read"), 0.0, 600.0));
  });
  reading("GET", "/buffer/peek", /*take=*/false, at_once);
  route("GET", "/buffer/stats", [this](const net::Request&) {
    return net::Response::json(
        reply_shape(true, "", {{"data", Json::array({stats()})}, {"meta_info", Json::object()}}));
  });
  route("GET", "/", [](const net::Request&) {
    return net::Response::json(reply_shape(true, "TritonForge rollout buffer", Json()));
  });
}

}  // namespace tritonforge::rollout
