#pragma once
// Bytes by name in one process, at which others meet: they put, count, and wait for what is not there yet, over HTTP
// with the server's key. Who waits holds none of the server's threads.
//   PUT /keys/NAME  GET /keys/NAME?wait_s=S (404 where it is not there by then)
//   POST /counters/NAME {"add": n} -> {"value"}
//   DELETE /keys/NAME   what is put and what is counted under it
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "net/http.h"

namespace tritonforge::parallel {

class Names {
 public:
  explicit Names(net::HttpServer& http);  // before it starts; no request of it comes once this ends
  ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  void remove_all(const std::string& prefix);  // keys and counters that begin so
  void stop();                                 // who waits, and who comes to wait, is told that there is nothing

  static constexpr double kLongestWait = 20;  // of one request; who waits longer asks again

 private:
  struct Waiting {
    std::string name;
    Clock::time_point until;
    net::ResponderPtr responder;
  };
  void get(const net::Request& request, net::ResponderPtr responder);
  void put(const std::string& name, std::string bytes);
  void end_waits();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<std::string, std::string> keys_;
  std::map<std::string, int64_t> counters_;
  std::list<Waiting> waiting_;
  std::thread clock_;  // ends waits whose time is over
};

}  // namespace tritonforge::parallel
