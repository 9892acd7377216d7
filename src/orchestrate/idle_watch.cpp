#include "orchestrate/idle_watch.h"

#include <algorithm>

namespace tritonforge::orchestrate {
namespace {

constexpr double kPatience = 2;  // a process that is slower is asked at the next step

double idle(double busy, double wall) { return std::clamp(1 - busy / wall, 0.0, 1.0); }

}  // namespace

IdleWatch::IdleWatch(std::vector<std::string> engines, std::string evaluator)
    : engines_(std::move(engines)), evaluator_(std::move(evaluator)), client_({.timeout_s = kPatience}) {
  step(0);
}

IdleShares IdleWatch::step(double train_s) {
  const auto now = Clock::now();
  const double wall = std::max(1e-9, std::chrono::duration<double>(now - since_).count());
  since_ = now;
  IdleShares shares;
  shares.actor = idle(train_s, wall);
  double sum = 0;
  size_t known = 0;
  for (const std::string& engine : engines_) {
    const auto busy = busy_since(engine, "/server_info", "step_seconds", "");
    sum += busy ? idle(*busy, wall) : 0;
    known += busy.has_value();
  }
  if (!engines_.empty() && known == engines_.size()) shares.rollout = sum / static_cast<double>(known);
  if (const auto busy = evaluator_.empty() ? std::nullopt
                                           : busy_since(evaluator_, "/health", "busy_seconds", "workers"))
    shares.eval = idle(*busy, wall);
  return shares;
}

std::optional<double> IdleWatch::busy_since(const std::string& url, const std::string& path, const char* seconds,
                                            const char* parts) {
  const auto last = counted_.extract(url);
  const auto response = client_.get(url + path);
  if (!response.ok() || response->status != 200) return std::nullopt;
  const Json body = parse_json_or_discard(response->body);
  const Json& figures = body.is_object() && body.contains("report") ? body.at("report") : body;  // of /health
  const auto number = [&](const char* name) -> std::optional<double> {
    if (!figures.is_object() || !figures.contains(name) || !figures.at(name).is_number()) return std::nullopt;
    return figures.at(name).get<double>();
  };
  if (!number(seconds)) return std::nullopt;
  const double busy = *number(seconds) / std::max(1.0, number(parts).value_or(1));
  counted_[url] = busy;
  if (last.empty()) return std::nullopt;
  return busy >= last.mapped() ? busy - last.mapped() : busy;
}

}  // namespace tritonforge::orchestrate
