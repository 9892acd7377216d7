#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>

#include "net/http.h"

namespace tritonforge::net {

namespace {

// Buckets count what is at most their bound, those before them included.
void append_histogram(std::string& out, const std::string& name, const SecondsHistogram& histogram) {
  int64_t count = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    count += histogram.counts[i];
    const bool last = i == SecondsHistogram::kBounds.size();
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name,
                       last ? "+Inf" : fmt::to_string(SecondsHistogram::kBounds[i]), count);
  }
  out += fmt::format("{0}_sum {1}\n{0}_count {2}\n", name, histogram.sum, count);
}

}  // namespace

struct Metrics::Impl {
  struct Family {
    std::string help;
    std::map<std::string, double> series;  // by name with labels
    std::optional<SecondsHistogram> histogram;
  };
  std::string prefix;
  mutable std::mutex mutex;
  std::map<std::string, Family> families;

  Family& family_of(const std::string& name) {
    const auto found = families.find(name.substr(0, name.find('{')));
    TF_CHECK(found != families.end(), "metric {}{} was not declared", prefix, name);
    return found->second;
  }
};

Metrics::Metrics(std::string_view role, std::map<std::string, std::string> help) : impl_(std::make_unique<Impl>()) {
  impl_->prefix = fmt::format("tritonforge_{}_", role);
  for (auto& [family, text] : help) impl_->families[family].help = std::move(text);
}
Metrics::~Metrics() = default;

void Metrics::add(const std::string& name, double amount) {
  const std::lock_guard lock(impl_->mutex);
  impl_->family_of(name).series[name] += amount;
}

void Metrics::set(const std::string& name, double value) {
  const std::lock_guard lock(impl_->mutex);
  impl_->family_of(name).series[name] = value;
}

void Metrics::set(const std::string& name, const SecondsHistogram& histogram) {
  const std::lock_guard lock(impl_->mutex);
  impl_->family_of(name).histogram = histogram;
}

void Metrics::set_all(const std::string& family, std::map<std::string, double> series) {
  const std::lock_guard lock(impl_->mutex);
  impl_->family_of(family).series = std::move(series);
}

double Metrics::get(const std::string& name) const {
  const std::lock_guard lock(impl_->mutex);
  const auto& series = impl_->family_of(name).series;
  const auto found = series.find(name);
  return found == series.end() ? 0 : found->second;
}

std::string Metrics::text() const {
  const std::lock_guard lock(impl_->mutex);
  std::string out;
  for (const auto& [name, family] : impl_->families) {
    if (family.series.empty() && !family.histogram) continue;
    const std::string whole = impl_->prefix + name;
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", whole, family.help, whole,
                       family.histogram           ? "histogram"
                       : name.ends_with("_total") ? "counter"
                                                  : "gauge");
    if (family.histogram) append_histogram(out, whole, *family.histogram);
    for (const auto& [series, value] : family.series) out += fmt::format("{}{} {}\n", impl_->prefix, series, value);
  }
  return out;
}

Response Metrics::reply() const { return {200, text(), "text/plain; version=0.0.4; charset=utf-8", {}}; }

}  // namespace tritonforge::net
