#pragma once
// Addresses of host names. The C library looks them up in a call that nothing can end, and that takes as long as the
// name servers that do not answer: it has a thread of its own, which is left behind where nobody waits any more.
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/loop.h"

namespace tritonforge::net {

// Of one name, under way or over. Whoever waits is woken on its loop, and takes itself off the list before that ends.
class Lookup : public std::enable_shared_from_this<Lookup> {
 public:
  struct Waiter {
    const asio::any_io_executor executor;
    Signal woken;
  };
  void begin(const std::string& host);  // throws kUnavailable where there is no thread for it
  bool is_over() const;
  bool wait(Deadline deadline);  // of a thread that has no loop; false: it is not over
  void add(std::shared_ptr<Waiter> waiter);
  void remove(const std::shared_ptr<Waiter>& waiter);
  error_code error() const { return error_; }                                     // once it is over
  const std::vector<asio::ip::address>& addresses() const { return addresses_; }  // likewise

 private:
  void run(const std::string& host);

  std::condition_variable changed_;
  mutable std::mutex mutex_;  // guards what follows
  bool over_ = false;
  error_code error_;
  std::vector<asio::ip::address> addresses_;
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

// Those of one loop: a name has one thread at a time, however many ask for it.
class Lookups {
 public:
  std::shared_ptr<Lookup> of(const std::string& host);  // throws as begin() does

 private:
  std::map<std::string, std::shared_ptr<Lookup>> under_way_;
};

}  // namespace tritonforge::net
