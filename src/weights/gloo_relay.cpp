#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "parallel/meeting_store.h"
#include "weights/relay.h"

namespace tritonforge::weights {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Work = c10::intrusive_ptr<c10d::Work>;

constexpr int kUp = 0, kDown = 1;     // ranks of a link
constexpr int kBytes = 0, kDone = 1;  // tags

// Between two neighbours. Gloo does not tell who waits for the piece in the midst of which a connection breaks, only
// who waits for others: so a thread waits for a byte that never comes, and ends the wait for the piece.
class Link {
 public:
  Link(const RelayPlace& place, int64_t upper, int rank)
      : what_(fmt::format("{}, {} the one {}", place.name, rank == kUp ? "to" : "from",
                          rank == kUp ? "behind" : "before")),
        stall_(static_cast<int64_t>(place.stall_s * 1e3)) {
    try {
      const auto options = c10d::ProcessGroupGloo::Options::create(stall_ / kConnects);
      options->threads = 1;  // of collectives, of which there are none
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(place.host));
      const std::string prefix = fmt::format("{}-{}", place.name, upper);
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
          parallel::meeting_store(place.meeting, prefix, place.stall_s), rank, 2, options);
      never_ = receive(at::zeros({1}, at::kByte), kNever);
    } catch (const std::exception& error) {
      fail_with(error);
    }
    watch_ = std::thread([this] { watch(); });
  }
  ~Link() {
    never_->abort();
    watch_.join();
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Throw kUnavailable where the other one is gone; wait() where nothing moves, too.
  Work send(const at::Tensor& bytes, int tag) {
    std::vector<at::Tensor> tensors{bytes};
    try {
      return group_->send(tensors, 1 - group_->getRank(), tag);
    } catch (const std::exception& error) {
      fail_with(error);
    }
  }
  Work receive(const at::Tensor& bytes, int tag) {
    std::vector<at::Tensor> tensors{bytes};
    try {
      return group_->recv(tensors, 1 - group_->getRank(), tag);
    } catch (const std::exception& error) {
      fail_with(error);
    }
  }
  void wait(const Work& work) {
    {
      const std::lock_guard lock(mutex_);
      waited_for_ = work;
      if (!broken_.empty()) work->abort();  // unless it is done
    }
    bool done = false;
    try {
      done = work->wait(stall_);
    } catch (const std::exception& error) {
      fail_with(error);
    }
    const std::lock_guard lock(mutex_);
    waited_for_.reset();
    if (!done) fail(ErrorKind::kUnavailable, "relay {}: {}", what_, broken_);
  }
  void check() const {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) fail(ErrorKind::kUnavailable, "relay {}: {}", what_, broken_);
  }

 private:
  static constexpr int kNever = 2;     // a tag
  static constexpr int kConnects = 5;  // that Gloo tries one after another, each for the group's time-out

  // What libtorch throws has a trace behind its first line.
  static std::string line_of(const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  [[noreturn]] void fail_with(const std::exception& error) const {
    fail(ErrorKind::kUnavailable, "relay {}: {}", what_, line_of(error));
  }
  void watch() {
    try {
      never_->wait(std::chrono::hours(24 * 365));  // without a number it is the group's time-out
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      broken_ = line_of(error);
      if (waited_for_) waited_for_->abort();
    }
  }

  const std::string what_;
  const Milliseconds stall_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  Work never_;
  mutable std::mutex mutex_;  // guards the next two
  std::string broken_;
  Work waited_for_;
  std::thread watch_;
};

class GlooRelay : public Relay {
 public:
  explicit GlooRelay(const RelayPlace& place) {
    // Both at once: those along the row do not wait for one another.
    std::future<std::unique_ptr<Link>> down;
    if (place.place + 1 < place.size) {
      down = std::async(std::launch::async, [&] { return std::make_unique<Link>(place, place.place, kUp); });
    }
    if (place.place > 0) up_ = std::make_unique<Link>(place, place.place - 1, kDown);
    if (down.valid()) down_ = down.get();
  }

  void pass_all(const at::Tensor& stream, const std::function<void(int64_t)>& arrived) override {
    std::deque<Work> coming, going;
    const int64_t bytes = stream.numel();
    int64_t asked = 0;
    const auto piece = [&](int64_t at) { return stream.narrow(0, at, std::min(kPieceBytes, bytes - at)); };
    const auto oldest = [](Link& link, std::deque<Work>& works) {
      link.wait(works.front());
      works.pop_front();
    };
    for (int64_t at = 0; at < bytes; at += kPieceBytes) {
      for (; up_ && asked < bytes && coming.size() < kAhead; asked += kPieceBytes)
        coming.push_back(up_->receive(piece(asked), kBytes));
      if (up_) oldest(*up_, coming);
      else if (going.size() == kAhead) oldest(*down_, going);
      if (down_) down_->check();
      if (down_) going.push_back(down_->send(piece(at), kBytes));
      if (up_) arrived(std::min(at + kPieceBytes, bytes));
    }
    if (up_) say_done();
    finish_next(going);
  }

 private:
  static constexpr size_t kAhead = 8;

  void say_done() {
    try {
      up_->wait(up_->send(at::ones({1}, at::kByte), kDone));
    } catch (const Error& error) {
      log::info("{}; all weights are here", error.what());  // and nothing is wanted of it any more
    }
  }
  // What is still on its way there is lost where this end hangs up, so the next one says when it has all. If it does
  // not, that is its own affair: it comes again.
  void finish_next(std::deque<Work>& going) {
    if (!down_) return;
    try {
      for (const Work& work : going) down_->wait(work);
      down_->wait(down_->receive(at::zeros({1}, at::kByte), kDone));
    } catch (const Error& error) {
      if (!up_) throw;
      log::warn("{}; all weights are here", error.what());
    }
  }
  std::unique_ptr<Link> up_, down_;
};

}  // namespace

std::unique_ptr<Relay> make_gloo_relay(const RelayPlace& place) { return std::make_unique<GlooRelay>(place); }

}  // namespace tritonforge::weights
