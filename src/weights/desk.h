#pragma once
// Where engines that want new weights meet the trainer's ranks that send them. Whoever comes waits until a round is
// formed, of all sources and of the receivers over NCCL, or of the others, that are there by then, and comes again
// after it, or once it has failed: so a receiver that dies in a round is not in the next, and one that is late or was
// restarted is in one of its own. Over HTTP with the run's key; the bytes of weights do not go through it.
//   POST /join MEMBER -> ROUND, {"round": null} where there is none yet: come again, or 404 for weights that are not
//   offered any more. The addresses of a round's members are names of it (parallel/names.h).
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/http.h"
#include "parallel/names.h"

namespace tritonforge::weights {

// Of one that comes.
struct Member {
  std::string id;  // of a receiver's process; "": a source
  int64_t source = 0;
  int64_t version = 0;
  bool nccl = false;          // of a receiver: it gets them over NCCL
  std::vector<int64_t> have;  // likewise: bytes of each source's stream
};

struct Round {
  std::string name;
  int64_t place = 0, size = 0;  // of this member in a row that begins with a source, 0, and has all receivers
  std::vector<int64_t> from;    // of each source: the bytes before this one are with all receivers
  bool nccl = false;
};

Json to_json(const Member& member);
Member member_from_json(const Json& json);  // throws kUsage naming the field
Json to_json(const Round& round);
std::optional<Round> round_from_json(const Json& json, const std::string& where);  // likewise; nothing: none yet

struct DeskOptions {
  std::string host = "127.0.0.1", key;  // any host but loopback needs a key
  int64_t sources = 1;
  // For which those that are there wait at most: for the others of a round that failed, else for those that took the
  // version before and not this one yet; of the first version, for any.
  double gather_s = 1;
};

class Desk {
 public:
  explicit Desk(DeskOptions options);  // throws kUnavailable, kUsage
  ~Desk();
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;
  int port() const { return http_.port(); }
  // From here on rounds are of this version; who waits for another is told that it is not there.
  void offer(int64_t version);

 private:
  struct Waiting {
    Member member;
    net::ResponderPtr responder;
    Clock::time_point since, until;
  };
  void join(const net::Request& request, net::ResponderPtr responder);
  void keep_time();
  // With the mutex held. What is to be said to whom once it is not.
  using Replies = std::vector<std::pair<net::ResponderPtr, net::Response>>;
  Replies look();
  bool sources_are_there() const;
  bool are_all_there(bool nccl) const;
  Replies form(bool nccl);
  Clock::time_point next_time() const;

  const DeskOptions options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false, flush_ = false;  // flush: sources of other weights look again at what they have
  int64_t version_ = -1, rounds_ = 0;
  std::list<Waiting> waiting_;
  struct Seen {                    // receivers
    std::set<std::string> last;    // of this version's last round
    std::set<std::string> now;     // of all of its rounds
    std::set<std::string> before;  // of those of the version before
  };
  std::map<bool, Seen> seen_;  // by Member::nccl
  std::string round_;          // the last one's name
  net::HttpServer http_;
  parallel::Names names_{http_};
  std::thread clock_;
};

}  // namespace tritonforge::weights
