// The life of the warm Python parent once it is warm. It is spent here and not in Python: what the parent writes while
// children share its memory is copied page by page, and takes its large pages apart for good.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "evaluate/packet.h"
#include "evaluate/sandbox/layers.h"

namespace tritonforge::sandbox {
namespace {

class Parent {
 public:
  Parent(int control, char* room, size_t size) : control_(control), room_(room), size_(size) {}

  // The job's socket in a child; -1 in the parent, once the trusted side has gone.
  int serve() {
    while (wait()) {
      if (!report_ended()) return -1;
      if ((polled_.front().revents & ~POLLOUT) == 0) continue;
      const ssize_t got = evaluate::receive_packet(control_, room_, size_ - 1, sent_);
      if (got <= 0) return -1;
      room_[got] = '\0';
      const int job = sent_.empty() ? -1 : sent_.front();
      int pidfd = -1;
      const Json request = Json::parse(room_);
      const pid_t child = fork_apart(request.at("sandbox"), &pidfd);
      if (child == 0) return job;
      Json answer = child < 0 ? Json{{"error", std::string("fork: ") + std::strerror(errno)}}
                              : Json{{"spawned", child}};
      answer["id"] = request.at("id");
      close(job);
      if (child > 0) children_.push_back({child, pidfd});
      if (!evaluate::send_packet(control_, answer.dump(), pidfd)) return -1;
    }
    return -1;
  }

 private:
  struct Living {
    pid_t pid;
    int pidfd;
  };

  bool wait() {
    polled_.assign(1, {control_, POLLIN, 0});
    for (const Living& child : children_) polled_.push_back({child.pidfd, POLLIN, 0});
    int ready;
    do {
      ready = poll(polled_.data(), polled_.size(), -1);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
  }

  bool report_ended() {
    std::vector<Living> left;
    for (size_t k = 0; k < children_.size(); ++k) {
      const auto& [pid, pidfd] = children_[k];
      int status = 0;
      if (polled_[k + 1].revents == 0 || waitpid(pid, &status, WNOHANG) != pid) {
        left.push_back(children_[k]);
        continue;
      }
      close(pidfd);
      if (!evaluate::send_packet(control_, Json{{"exited", pid}, {"status", status}}.dump())) return false;
    }
    children_ = std::move(left);
    return true;
  }

  const int control_;
  char* const room_;
  const size_t size_;
  std::vector<int> sent_;  // the socket that came with a request
  std::vector<Living> children_;
  std::vector<pollfd> polled_;
};

}  // namespace
}  // namespace tritonforge::sandbox

// Serves the control socket (protocol: worker/tritonforge_worker/zygote.py) until the trusted side closes it: 0.
// Returns in each child, which is alone in its namespaces, the job's socket, with what was asked for as text in
// `request`.
extern "C" int tritonforge_serve(int control, char* request, size_t size) {
  const int job = tritonforge::sandbox::Parent(control, request, size).serve();
  return job < 0 ? 0 : job;
}
