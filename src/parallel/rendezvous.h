#pragma once
// Where the ranks of a job meet: bytes by name in rank 0's process (names.h), and who was heard of lately. All that
// ranks tell each other beside tensors goes through it, over HTTP with the job's key.
//   POST /ranks/R {"at"} -> {"failed": text or null}   DELETE /ranks/R   POST /failure {"rank", "text", "of_another"}
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/http.h"
#include "parallel/names.h"

namespace tritonforge::parallel {

class Rendezvous {
 public:
  // lost_after_s: a rank that said where it is and then nothing for so long ends the job. beat_s: between two words of
  // one that is alive.
  Rendezvous(net::ServerOptions http, int64_t ranks, double lost_after_s, double beat_s);
  ~Rendezvous();
  std::string url() const { return http_.url(); }

 private:
  struct Rank {
    bool known = false;  // was heard of, and has not left
    std::string at;
    Clock::time_point heard;
    bool fell_out = false;  // it could not go on without another
  };
  // A rank's death is noticed first by those whose connections to it break. The job ends by its name: once all who are
  // alive have had time for a word.
  struct Broken {
    int64_t rank;  // the first one that noticed
    std::string text;
    Clock::time_point at;
  };
  net::Response beat(const net::Request& request);
  Rank& rank_of(const net::Request& request);           // throws kUsage
  void fail_job(int64_t rank, const std::string& why);  // with the mutex held; the first one counts
  void hear_of_another(int64_t rank, const std::string& text);
  void look_for_lost();          // likewise
  void look_for_who_broke_it();  // likewise

  const double lost_after_s_, beat_s_;
  std::mutex mutex_;  // guards the next three
  std::vector<Rank> ranks_;
  std::optional<Broken> broken_;
  std::optional<std::string> failure_;
  net::HttpServer http_;
  Names names_{http_};
};

// One rank's way there. Thread-safe. Every call throws kUnavailable or kTimeout, naming the rendezvous.
class Meeting {
 public:
  Meeting(std::string url, const std::string& api_key);
  void put(const std::string& name, std::string bytes);
  std::string get(const std::string& name, Deadline deadline);
  // nullopt where it is not there in time.
  std::optional<std::string> look(const std::string& name, double wait_s);
  void remove(const std::string& name);
  int64_t add(const std::string& name, int64_t n);
  // Says where the rank is; what ended the job, where something did.
  std::optional<std::string> beat(int64_t rank, const std::string& at);
  void leave(int64_t rank);
  // of_another: what the rank could not go on without.
  void report_failure(int64_t rank, const std::string& text, bool of_another);

 private:
  std::string ask(const std::string& method, const std::string& path, std::string body = "");
  std::string url_;
  net::HttpClient client_;
};

}  // namespace tritonforge::parallel
