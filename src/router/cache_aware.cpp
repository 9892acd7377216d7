#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

#include "router/hash.h"
#include "router/policy.h"

namespace tritonforge::router {
namespace {

constexpr size_t kBlockBytes = 256, kMaxBlocks = 128;  // of a prompt; what lies behind is not compared
constexpr double kOverload = 1.5;

bool holds(const std::vector<uint64_t>& list, uint64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// A prompt's prefixes: entry i is the hash of its first i + 1 blocks.
std::vector<uint64_t> prefixes_of(std::string_view prompt) {
  std::vector<uint64_t> prefixes;
  prefixes.reserve(std::min(prompt.size() / kBlockBytes, kMaxBlocks));
  uint64_t hash = 0;
  while (prompt.size() >= kBlockBytes && prefixes.size() < kMaxBlocks) {
    hash = hash_of(prompt.substr(0, kBlockBytes), hash);
    prefixes.push_back(hash);
    prompt.remove_prefix(kBlockBytes);
  }
  return prefixes;
}

class CacheAware final : public Policy {
 public:
  explicit CacheAware(size_t capacity) : capacity_(capacity), others_(make_least_tokens()) {}

  WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint& hint) override {
    const std::vector<uint64_t> prefixes = prefixes_of(hint.prompt);
    if (prefixes.empty()) return others_->pick(usable, hint);
    int64_t outstanding = 0;
    for (const WorkerPtr& worker : usable) outstanding += worker->tokens();
    const double bound = kOverload * static_cast<double>(outstanding) / static_cast<double>(usable.size()) +
                         static_cast<double>(hint.tokens);
    const std::lock_guard lock(mutex_);
    std::vector<WorkerPtr> warm;
    for (size_t blocks = prefixes.size(); warm.empty() && 2 * blocks >= prefixes.size() && blocks > 0; --blocks) {
      const auto known = index_.find(prefixes[blocks - 1]);
      if (known == index_.end()) continue;
      for (const WorkerPtr& worker : usable) {
        if (static_cast<double>(worker->tokens()) <= bound && holds(known->second->workers, worker->hash()))
          warm.push_back(worker);
      }
    }
    const WorkerPtr chosen = others_->pick(warm.empty() ? usable : warm, hint);
    remember(prefixes, chosen->hash());
    return chosen;
  }

 private:
  struct Prefix {
    uint64_t hash = 0;
    std::vector<uint64_t> workers;  // that have seen it
  };

  void remember(const std::vector<uint64_t>& prefixes, uint64_t worker) {
    // The longest first: what is used last, and forgotten last, is the beginning that others share.
    for (size_t i = prefixes.size(); i-- > 0;) {
      const auto [known, fresh] = index_.try_emplace(prefixes[i]);
      if (fresh) order_.push_front({prefixes[i], {}});
      else order_.splice(order_.begin(), order_, known->second);
      known->second = order_.begin();
      auto& workers = order_.front().workers;
      if (holds(workers, worker)) continue;
      if (workers.size() == kMaxWorkers) workers.erase(workers.begin());
      workers.push_back(worker);
    }
    while (order_.size() > capacity_) {
      index_.erase(order_.back().hash);
      order_.pop_back();
    }
  }

  static constexpr size_t kMaxWorkers = 16;  // of one prefix: the last ones
  const size_t capacity_;
  const std::unique_ptr<Policy> others_;
  std::mutex mutex_;
  std::list<Prefix> order_;  // last used first
  std::unordered_map<uint64_t, std::list<Prefix>::iterator> index_;
};

}  // namespace

std::unique_ptr<Policy> make_cache_aware(size_t capacity) { return std::make_unique<CacheAware>(capacity); }

}  // namespace tritonforge::router
