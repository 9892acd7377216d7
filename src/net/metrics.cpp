#include <fmt/format.h>

#include <map>
#include <mutex>

#include "net/http.h"

namespace tritonforge::net {

struct Metrics::Impl {
  struct Series {
    double value = 0;
    bool counter = false;
  };
  mutable std::mutex mutex;
  // By family first, so that the series of one stand together whatever else sorts between them.
  std::map<std::string, std::map<std::string, Series>> families;

  Series& at(const std::string& name) { return families[name.substr(0, name.find('{'))][name]; }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::add(const std::string& name, double amount) {
  const std::lock_guard lock(impl_->mutex);
  auto& series = impl_->at(name);
  series.value += amount;
  series.counter = true;
}

void Metrics::set(const std::string& name, double value) {
  const std::lock_guard lock(impl_->mutex);
  impl_->at(name) = {value, false};
}

double Metrics::get(const std::string& name) const {
  const std::lock_guard lock(impl_->mutex);
  const auto family = impl_->families.find(name.substr(0, name.find('{')));
  if (family == impl_->families.end()) return 0;
  const auto series = family->second.find(name);
  return series == family->second.end() ? 0 : series->second.value;
}

std::string Metrics::text() const {
  const std::lock_guard lock(impl_->mutex);
  std::string out;
  for (const auto& [family, all] : impl_->families) {
    out += fmt::format("# TYPE {} {}\n", family, all.begin()->second.counter ? "counter" : "gauge");
    for (const auto& [name, series] : all) out += fmt::format("{} {}\n", name, series.value);
  }
  return out;
}

}  // namespace tritonforge::net
