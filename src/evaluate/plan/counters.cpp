#include "evaluate/plan/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace tritonforge::evaluate {
namespace {

constexpr size_t kMostKernels = 256, kMostText = 300;
constexpr double kMost = 1e18;  // of any counter

// "a","b ""c""" -> a | b "c". Nothing where the line is not that.
std::optional<std::vector<std::string>> values_of(std::string_view line) {
  std::vector<std::string> values;
  while (!line.empty()) {
    if (line.front() != '"') return std::nullopt;
    std::string& value = values.emplace_back();
    size_t at = 1;
    for (;; ++at) {
      if (at == line.size()) return std::nullopt;
      if (line[at] != '"') value += line[at];
      else if (at + 1 < line.size() && line[at + 1] == '"') value += line[at++];
      else break;
    }
    line.remove_prefix(at + 1);
    if (line.empty()) break;
    if (line.front() != ',' || line.size() == 1) return std::nullopt;
    line.remove_prefix(1);
  }
  return values;
}

// "1,234.5" -> 1234.5
std::optional<double> number_of(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= kMost)) return std::nullopt;
  return value;
}

class Log {
 public:
  void read(std::string_view line) {
    if (line.starts_with("==")) return hear(line);
    const auto values = values_of(line);
    if (!values || values->empty()) return;  // what is neither ncu's message nor its table
    if (!table_) {
      if (values->front() == "ID") begin(*values);
    } else if (!units_) {
      units_ = true;
      check_units(*values);
    } else {
      add(*values);
    }
  }

  Counted counted() {
    if (wrong_.empty() && sums_.empty()) wrong_ = message_.empty() ? "ncu printed no counters" : message_;
    if (!wrong_.empty()) return {.kernels = {}, .unavailable = wrong_.substr(0, kMostText)};
    Counted counted;
    for (const Sum& sum : sums_) {
      KernelCounters& kernel = counted.kernels.emplace_back(sum.kernel);
      for (double* mean : {&kernel.sm_percent, &kernel.occupancy_percent, &kernel.l2_hit_percent})
        *mean = sum.time > 0 ? *mean / sum.time : 0;
    }
    return counted;
  }

 private:
  struct Sum {
    KernelCounters kernel;  // its percentages times their launches' time
    double time = 0;
  };

  void hear(std::string_view line) {
    if (line.find("ERR_NVGPUCTRPERM") != std::string_view::npos) {
      wrong_ =
          "ncu may not read this GPU's counters (ERR_NVGPUCTRPERM): run as root, or load the driver with "
          "NVreg_RestrictProfilingToAdminUsers=0";
    } else if (line.starts_with("==ERROR==") || line.starts_with("==WARNING== No kernels")) {
      const size_t text = line.find(' ');
      if (message_.empty() && text != std::string_view::npos) message_ = fmt::format("ncu:{}", line.substr(text));
    }
  }

  void begin(const std::vector<std::string>& names) {
    table_ = true;
    const auto place = [&](std::string_view name) {
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) refuse(fmt::format("ncu printed no column '{}'", name));
      return static_cast<size_t>(at - names.begin());
    };
    name_ = place("Kernel Name");
    for (size_t k = 0; k < kNcuMetrics.size(); ++k) metrics_[k] = place(kNcuMetrics[k]);
  }

  void check_units(const std::vector<std::string>& units) {
    constexpr std::array<std::array<std::string_view, 2>, kNcuMetrics.size()> kKnown = {
        {{"nsecond", "ns"}, {"byte", "byte"}, {"%", "%"}, {"%", "%"}, {"%", "%"}}};
    for (size_t k = 0; k < kNcuMetrics.size(); ++k) {
      const std::string unit = metrics_[k] < units.size() ? units[metrics_[k]] : "";
      if (unit != kKnown[k][0] && unit != kKnown[k][1])
        refuse(fmt::format("ncu gives {} in '{}', not in {}", kNcuMetrics[k], unit, kKnown[k][0]));
    }
  }

  void add(const std::vector<std::string>& values) {
    if (!wrong_.empty()) return;
    if (name_ >= values.size()) return refuse("ncu printed a launch without a kernel's name");
    const std::string& name = values[name_];
    std::array<double, kNcuMetrics.size()> found{};
    for (size_t k = 0; k < found.size(); ++k) {
      const auto number = metrics_[k] < values.size() ? number_of(values[metrics_[k]]) : std::nullopt;
      if (!number) return refuse(fmt::format("ncu has no {} of kernel {}", kNcuMetrics[k], name));
      found[k] = *number;
    }
    auto at = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& sum) { return sum.kernel.name == name; });
    if (at == sums_.end()) {
      if (sums_.size() == kMostKernels) return;
      at = sums_.insert(at, Sum{.kernel = {.name = name}});
    }
    const auto [time, bytes, sm, occupancy, l2] = found;
    at->time += time;
    ++at->kernel.launches;
    at->kernel.dram_bytes += bytes;
    at->kernel.sm_percent += time * sm;
    at->kernel.occupancy_percent += time * occupancy;
    at->kernel.l2_hit_percent += time * l2;
  }

  void refuse(std::string why) {
    if (wrong_.empty()) wrong_ = std::move(why);
  }

  bool table_ = false, units_ = false;
  size_t name_ = 0;
  std::array<size_t, kNcuMetrics.size()> metrics_{};  // columns
  std::vector<Sum> sums_;
  std::string wrong_, message_;  // what makes all of it worthless; ncu's own words, where it printed no counters
};

}  // namespace

Counted parse_ncu_log(std::string_view log) {
  Log read;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    read.read(line);
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return read.counted();
}

}  // namespace tritonforge::evaluate
