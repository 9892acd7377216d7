#pragma once
// Which handler answers a method and path. Filled before the server starts, read-only after.
#include <string>
#include <vector>

#include "net/http.h"

namespace tritonforge::net {

struct Route {
  std::string method, pattern;
  Handler blocking;  // one of the two is set
  AsyncHandler async;
  struct Segment {
    enum class Kind { kLiteral, kParameter, kRest } kind;
    std::string text;  // the literal, or the parameter's name
  };
  std::vector<Segment> segments;
  Effect effect = Effect::kOfMethod;
};

class RouteTable {
 public:
  void add(Route route);
  struct Match {
    const Route* route = nullptr;
    std::map<std::string, std::string> parameters;
    bool reads = false;                // the request changes nothing here
    std::vector<std::string> allowed;  // without a route: the methods that this path has; empty: there is no such path
  };
  // A literal segment beats {name}, which beats '*'. HEAD is answered by GET's handler.
  Match find(const std::string& method, const std::string& raw_path) const;
  std::string nearest(const std::string& path) const;  // nearest_hint over the patterns
  Json listed() const;                                 // the reply to GET /routes

 private:
  std::vector<std::string> methods_of(const std::vector<std::string>& parts) const;
  std::vector<Route> routes_;
};

}  // namespace tritonforge::net
