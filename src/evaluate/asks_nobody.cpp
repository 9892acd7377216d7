#include "evaluate/asks_nobody.h"

#include <netinet/in.h>
#include <seccomp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

namespace tritonforge::evaluate {
namespace {

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

class Rules {
 public:
  Rules() : filter_(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release) {}

  template <typename... Where>
  void refuse(int call, Where... where) {
    add(seccomp_rule_add(filter_.get(), kRefused, call, sizeof...(where), where...));
  }

  std::string load() {
    if (refused_ == 0) add(seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_TSYNC, 1));  // of every thread there is
    if (refused_ == 0) add(seccomp_load(filter_.get()));
    return refused_ == 0 ? "enforced: answers, and connects to nobody"
                         : std::string("unavailable: ") + std::strerror(-refused_);
  }

 private:
  static constexpr uint32_t kRefused = SCMP_ACT_ERRNO(EPERM);
  void add(int result) {
    if (refused_ == 0) refused_ = result;
  }

  Filter filter_;
  int refused_ = 0;
};

constexpr scmp_datum_t kAll = UINT32_MAX;  // an int: the kernel does not look at the upper half

// All values of an argument of socket() but those of `kept`, which rise; of sockets of one family, or of all. A rule
// compares an argument once.
template <size_t kCount>
void refuse_sockets_but(Rules& rules, unsigned argument, scmp_datum_t mask, const scmp_datum_t (&kept)[kCount],
                        std::optional<int> family = std::nullopt) {
  const auto refuse = [&](scmp_arg_cmp value) {
    if (family) rules.refuse(SCMP_SYS(socket), SCMP_A0(SCMP_CMP_MASKED_EQ, kAll, scmp_datum_t(*family)), value);
    else rules.refuse(SCMP_SYS(socket), value);
  };
  scmp_datum_t value = 0;
  for (const scmp_datum_t keep : kept) {
    for (; value < keep; ++value) refuse(SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
    ++value;
  }
  if (mask == kAll) refuse(SCMP_CMP(argument, SCMP_CMP_GE, value));
  for (; mask != kAll && value <= mask; ++value) refuse(SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
}

}  // namespace

std::string ask_nobody() {
  Rules rules;
  // A connection is opened by connect, or by the first bytes that are sent where they may take its place.
  rules.refuse(SCMP_SYS(connect));
  rules.refuse(SCMP_SYS(sendto), SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
  rules.refuse(SCMP_SYS(sendmsg), SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
  rules.refuse(SCMP_SYS(sendmmsg), SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
  // Sockets that send without one are not made; those of TCP listen, and CUDA's driver binds one of UNIX.
  constexpr scmp_datum_t kTypes = 0xf;  // the bits beside the flags
  refuse_sockets_but(rules, 0, kAll, {AF_UNIX, AF_INET, AF_INET6});
  for (const int family : {AF_INET, AF_INET6}) {
    refuse_sockets_but(rules, 1, kTypes, {SOCK_STREAM}, family);
    refuse_sockets_but(rules, 2, kAll, {0, IPPROTO_TCP}, family);
  }
  // io_uring would do all of it without these calls.
  rules.refuse(SCMP_SYS(io_uring_setup));
  return rules.load();
}

}  // namespace tritonforge::evaluate
