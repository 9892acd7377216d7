#pragma once
// Least-recently-used map bounded by a total cost. Thread-safe; values are copied out (use shared_ptr for large ones).
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace tritonforge::evaluate {

template <typename Value>
class LruCache {
 public:
  explicit LruCache(size_t max_cost) : max_cost_(max_cost) {}
  std::optional<Value> get(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) {
      ++misses_;
      return std::nullopt;
    }
    ++hits_;
    items_.splice(items_.begin(), items_, found->second);
    return found->second->value;
  }
  // What costs more than the whole cache is not kept.
  void put(const std::string& key, Value value, size_t cost = 1) {
    const std::lock_guard lock(mutex_);
    if (cost > max_cost_) return;
    if (const auto found = index_.find(key); found != index_.end()) {
      cost_ -= found->second->cost;
      items_.erase(found->second);
      index_.erase(found);
    }
    items_.push_front({key, std::move(value), cost});
    index_[key] = items_.begin();
    cost_ += cost;
    while (cost_ > max_cost_) {
      cost_ -= items_.back().cost;
      index_.erase(items_.back().key);
      items_.pop_back();
    }
  }
  size_t hits() const { return locked(hits_); }
  size_t misses() const { return locked(misses_); }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  size_t locked(const size_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  struct Item {
    std::string key;
    Value value;
    size_t cost;
  };
  size_t max_cost_, cost_ = 0, hits_ = 0, misses_ = 0;
  mutable std::mutex mutex_;
  std::list<Item> items_;
  std::unordered_map<std::string, typename std::list<Item>::iterator> index_;
};

}  // namespace tritonforge::evaluate
