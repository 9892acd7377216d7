#include "net/routes.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace tritonforge::net {
namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  parts.reserve(4);
  size_t start = path.empty() || path[0] != '/' ? 0 : 1;
  while (start <= path.size()) {
    const size_t end = std::min(path.find('/', start), path.size());
    parts.emplace_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

using Kind = Route::Segment::Kind;

// One character a segment, less is more specific; empty where the path does not fit.
std::string fit(const Route& route, const std::vector<std::string>& parts,
                std::map<std::string, std::string>& parameters) {
  std::string score;
  for (size_t i = 0; i < route.segments.size(); ++i) {
    const auto& [kind, text] = route.segments[i];
    if (i >= parts.size()) return "";
    if (kind == Kind::kRest) return score + '2';
    if (kind == Kind::kLiteral) {
      if (text != parts[i]) return "";
      score += '0';
    } else {
      if (parts[i].empty()) return "";
      parameters[text] = parts[i];
      score += '1';
    }
  }
  return parts.size() == route.segments.size() ? score : "";
}

}  // namespace

void RouteTable::add(Route route) {
  TF_CHECK(!route.pattern.empty() && route.pattern[0] == '/', "route pattern '{}' must begin with '/'", route.pattern);
  std::vector<std::string> parts = split(route.pattern);
  for (std::string& part : parts) {
    if (&part == &parts.back() && part == "*") route.segments.push_back({Kind::kRest, ""});
    else if (part.size() > 2 && part.front() == '{' && part.back() == '}')
      route.segments.push_back({Kind::kParameter, part.substr(1, part.size() - 2)});
    else route.segments.push_back({Kind::kLiteral, std::move(part)});
  }
  routes_.push_back(std::move(route));
}

RouteTable::Match RouteTable::find(const std::string& method, const std::string& raw_path) const {
  auto parts = split(raw_path);
  for (auto& part : parts) {
    if (part.find('%') != std::string::npos) part = percent_decode(part, false);
  }
  Match best;
  std::string best_score;
  for (const Route& route : routes_) {
    const bool exact = route.method == method || (method == "HEAD" && route.method == "GET");
    if (!exact && route.method != "*") continue;
    std::map<std::string, std::string> parameters;
    std::string score = fit(route, parts, parameters);
    if (score.empty()) continue;
    score += exact ? '0' : '1';
    if (best.route && score >= best_score) continue;
    best.route = &route;
    best.parameters = std::move(parameters);
    best_score = std::move(score);
  }
  if (!best.route) best.allowed = methods_of(parts);
  const bool says_so = !best.route || (best.route->method == "GET" && best.route->effect == Effect::kOfMethod);
  best.reads = says_so && (method == "GET" || method == "HEAD");
  return best;
}

std::vector<std::string> RouteTable::methods_of(const std::vector<std::string>& parts) const {
  std::set<std::string> methods;
  std::map<std::string, std::string> ignored;
  for (const Route& route : routes_) {
    if (!fit(route, parts, ignored).empty()) methods.insert(route.method);
  }
  if (methods.contains("GET")) methods.insert("HEAD");
  return {methods.begin(), methods.end()};
}

std::string RouteTable::nearest(const std::string& path) const {
  std::set<std::string> patterns;
  for (const Route& route : routes_) patterns.insert(route.pattern);
  return nearest_hint(path, {patterns.begin(), patterns.end()});
}

Json RouteTable::listed() const {
  std::set<std::pair<std::string, std::string>> all;
  for (const Route& route : routes_) all.emplace(route.pattern, route.method);
  Json list = Json::array();
  for (const auto& [pattern, method] : all) list.push_back({{"method", method}, {"path", pattern}});
  return {{"routes", std::move(list)}};
}

}  // namespace tritonforge::net
