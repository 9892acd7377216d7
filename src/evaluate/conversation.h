#pragma once
// The conversation with one candidate's process: frames in order, its own time, and bounds on what it may send.
// Whatever comes is an answer or an Ended; nothing that it says is believed here.
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "contract/verdict.h"
#include "evaluate/children.h"
#include "evaluate/client.h"

namespace tritonforge::evaluate {

// What an answer may hold beyond twice the reference's bytes: a wrong shape or dtype shall still be told as one.
inline constexpr size_t kPayloadSlack = 64 << 20;

// The time of a candidate's own work: compiling does not count. It ends before that where nobody waits any longer.
struct OwnTime {
  explicit OwnTime(double seconds, std::stop_token client_left = {})
      : limit_s(seconds), deadline(Deadline::after(seconds)), left(std::move(client_left)) {}
  template <typename Work>
  void paused(Work work) {
    const double left = deadline.remaining_s();
    work();
    deadline = Deadline::after(left);
  }
  double limit_s;
  Deadline deadline;
  std::stop_token left;
};

// Why a process gives no answer, or no further one.
struct Ended {
  enum class How {
    kSilent,  // it died, hangs or takes too much
    kFailed,  // it says so itself
    kForged,  // it said what no worker says: the fault is kForbidden
  };
  How how = How::kSilent;
  Fault fault = Fault::kNone;
  std::string text;
  std::vector<std::string> kernels, tampered;  // of a failure: launched before it; library functions that were replaced
};

// One specialisation of a kernel for one target, as the candidate's process sent it.
struct SentKernel {
  std::string name, target, ir;
  Json options;
  std::string error;  // of the compiler's front end; there is no IR then
};

class Conversation {
 public:
  // `time` is shared by all conversations about one candidate. `who` begins what is said of its silence.
  // The process ends at once where time.left says so.
  Conversation(std::unique_ptr<Child> child, OwnTime& time, const char* who = "the candidate's process");
  Child& child() { return *child_; }
  std::unique_ptr<Child> release();  // it ends the conversation

  // Both throw Ended where the process is silent or garbles its frames, kUnavailable where its Python parent died, and
  // what check_waited_for throws.
  // `doing` says what it was at: "being parsed".
  void send(const Json& header, const std::vector<std::span<const std::byte>>& payload, const char* doing);
  Frame receive(const char* doing, size_t payload_bytes);
  // The next frame that is no kernel, its payload hardly above `payload_bytes`. Throws Ended for a failure that it
  // tells, too, and for more kernels than a candidate may launch.
  Frame next(const char* doing, size_t payload_bytes = 0);
  // That came since the last call.
  std::vector<SentKernel> take_kernels() { return std::exchange(kernels_, {}); }

 private:
  [[noreturn]] void silent(Silence silence, const std::string& detail, const char* doing);
  void keep(const Frame& frame);

  using OnLeft = std::stop_callback<std::function<void()>>;
  std::unique_ptr<Child> child_;
  std::unique_ptr<OnLeft> on_left_;  // kills the child
  OwnTime& time_;
  const char* who_;
  std::vector<SentKernel> kernels_;
  size_t kernels_sent_ = 0, ir_bytes_ = 0;  // of all that came
};

// Texts and numbers of what an untrusted process sent.
std::string string_or(const Json& object, const char* key, const std::string& fallback);
int64_t number_or(const Json& object, const char* key, int64_t fallback);
Ended forged(const std::string& what);
// A failure that a process of the candidate's tells: {"failed": {"kind", "text"}}.
Ended failure_of(const Frame& frame);

}  // namespace tritonforge::evaluate
