#include "orchestrate/pace.h"

#include <algorithm>

namespace tritonforge::orchestrate {

void Pace::at(double now, int64_t done) {
  if (!seen_.empty() && done < seen_.back().second) return go_back(now, done);
  if (!seen_.empty() && done == seen_.back().second) return;
  seen_.emplace_back(now, done);
  if (seen_.size() > 2 && !first_is_gone_) {
    seen_.pop_front();
    first_is_gone_ = true;
  }
  if (seen_.size() > kLast) seen_.pop_front();
}

void Pace::go_back(double now, int64_t done) {
  const auto [last, units] = seen_.back();
  for (auto& [time, count] : seen_) {
    time += now - last;
    count -= units - done;
  }
}

double Pace::left(double now, int64_t total) const {
  if (seen_.size() < 2) return 0;
  const auto& [from, before] = seen_.front();
  const auto& [last, done] = seen_.back();
  const double each = (last - from) / static_cast<double>(done - before);
  const auto units = static_cast<double>(total - done);
  // Of the unit under way a part is done; it may take longer than the others did.
  return units > 0 ? std::max(units * each - std::min(now - last, each), 0.05 * each) : 0;
}

}  // namespace tritonforge::orchestrate
