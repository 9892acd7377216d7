// A child that sends too much, too deep or without end: each time the trusted side stops at its own limit.
#include "evaluate/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

// The child's end, and a thread that writes to it until it is told that nobody reads.
class Sender {
 public:
  Sender() {
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) != 0) throw std::runtime_error("socketpair");
  }
  ~Sender() {
    if (thread_.joinable()) thread_.join();
    ::close(ends_[1]);
  }
  int receiver() const { return ends_[0]; }
  void send(std::string start, std::string again = "") {
    thread_ = std::thread([this, start = std::move(start), again = std::move(again)] {
      if (!write(start)) return;
      while (!again.empty() && write(again)) {}
    });
  }

 private:
  bool write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(ends_[1], text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  int ends_[2] = {-1, -1};
  std::thread thread_;
};

std::string frame_start(const std::string& header, uint64_t payload) {
  std::string out(12, '\0');
  const auto head = static_cast<uint32_t>(header.size());
  std::memcpy(out.data(), &head, 4);
  std::memcpy(out.data() + 4, &payload, 8);
  return out + header;
}

struct Received {
  Silence silence;
  Frame frame;
  std::string detail;
};

Received receive(Sender& sender, double limit_s, ChannelLimits limits = {}, pid_t watched = -1,
                 uint64_t payload_bytes = UINT64_MAX) {
  Received out;
  Channel channel(sender.receiver(), watched, limits);  // closed at the end: the sender's writes fail
  if (watched > 0) channel.watch_from_here();
  out.silence = channel.receive(out.frame, Deadline::after(limit_s), out.detail, payload_bytes);
  return out;
}

TEST(Channel, AFrameComesWhole) {
  Sender sender;
  sender.send(frame_start(R"({"stage":"parsed"})", 3) + "abc");
  const Received got = receive(sender, 60);
  ASSERT_EQ(got.silence, Silence::kNone);
  EXPECT_EQ(got.frame.header, Json({{"stage", "parsed"}}));
  EXPECT_EQ(got.frame.header_bytes, 18u);
  EXPECT_EQ(got.frame.payload.size(), 3u);
}

TEST(Channel, TheDeadlineHoldsWhileBytesKeepComing) {
  Sender sender;
  sender.send(frame_start("{}", uint64_t{1} << 30), std::string(1 << 16, 'x'));
  EXPECT_EQ(receive(sender, 0.05, {.memory_bytes = UINT64_MAX / 2, .frame_bytes = UINT64_MAX}).silence,
            Silence::kTimeout);
}

TEST(Channel, TheMemoryWatchHoldsWhileBytesKeepComing) {
  Sender sender;
  sender.send(frame_start("{}", uint64_t{1} << 30), std::string(1 << 20, 'x'));
  // This process stands for the child: it holds what it receives.
  const ChannelLimits limits{.memory_bytes = uint64_t{256} << 20, .frame_bytes = UINT64_MAX, .max_processes = 4096};
  EXPECT_EQ(receive(sender, 60, limits, ::getpid()).silence, Silence::kMemory);
}

// A child that takes long to put its sandbox on holds what it inherited from its parent, and has done nothing yet.
TEST(Channel, WhatIsInheritedIsNotCounted) {
  Sender sender;
  const ChannelLimits limits{.memory_bytes = 1 << 20, .max_processes = 4096};  // this process has more, as a parent has
  Channel channel(sender.receiver(), ::getpid(), limits);
  Frame frame;
  std::string detail;
  EXPECT_EQ(channel.receive(frame, Deadline::after(0.2), detail), Silence::kTimeout);
}

TEST(Channel, WhatIsTooLargeOrTooDeepIsNoFrame) {
  const auto said_of = [](const std::string& sent, uint64_t payload_bytes) {
    Sender sender;
    sender.send(sent);
    const Received got = receive(sender, 60, {}, -1, payload_bytes);
    EXPECT_EQ(got.silence, Silence::kGarbled);
    return got.detail;
  };
  const std::string deep(2'000'000, '[');
  EXPECT_THAT(said_of(frame_start(R"({"a":)" + deep, 0), 0), HasSubstr("too deep"));
  EXPECT_THAT(said_of(frame_start("{}", 1001), 1000), HasSubstr("1001 payload bytes"));
  EXPECT_THAT(said_of(frame_start("{}", (uint64_t{8} << 30) + 1), UINT64_MAX), HasSubstr("payload bytes"));
  EXPECT_THAT(said_of(frame_start(std::string(kMaxHeader + 1, ' '), 0), 0), HasSubstr("header and 0 payload"));
  EXPECT_THAT(said_of(frame_start("", 0), 0), HasSubstr("a frame of 0 header"));
}

}  // namespace
}  // namespace tritonforge::evaluate
