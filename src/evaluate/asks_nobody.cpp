#include "evaluate/asks_nobody.h"

#include <netinet/in.h>
#include <seccomp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace tritonforge::evaluate {
namespace {

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

class Rules {
 public:
  Rules() : filter_(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release) {}

  void refuse(int call) { add(seccomp_rule_add(filter_.get(), kRefused, call, 0)); }
  void refuse(int call, scmp_arg_cmp where) { add(seccomp_rule_add(filter_.get(), kRefused, call, 1, where)); }

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

// All values of an argument but those of `kept`, which rise. A rule compares an argument once.
template <size_t kCount>
void refuse_all_but(Rules& rules, int call, unsigned argument, scmp_datum_t mask, const scmp_datum_t (&kept)[kCount]) {
  scmp_datum_t value = 0;
  for (const scmp_datum_t keep : kept) {
    for (; value < keep; ++value) rules.refuse(call, SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
    ++value;
  }
  if (mask == UINT32_MAX) {
    rules.refuse(call, SCMP_CMP(argument, SCMP_CMP_GE, value));
  } else {
    for (; value <= mask; ++value) rules.refuse(call, SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
  }
}

}  // namespace

std::string ask_nobody() {
  Rules rules;
  // A connection is opened by connect, or by the first bytes that are sent where they may take its place.
  rules.refuse(SCMP_SYS(connect));
  rules.refuse(SCMP_SYS(sendto), SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
  rules.refuse(SCMP_SYS(sendmsg), SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
  rules.refuse(SCMP_SYS(sendmmsg), SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
  // Sockets that send without one are not made; those of TCP listen.
  constexpr scmp_datum_t kTypes = 0xf;  // the bits beside the flags
  refuse_all_but(rules, SCMP_SYS(socket), 0, UINT32_MAX, {AF_UNIX, AF_INET, AF_INET6});
  refuse_all_but(rules, SCMP_SYS(socket), 1, kTypes, {SOCK_STREAM});
  refuse_all_but(rules, SCMP_SYS(socket), 2, UINT32_MAX, {0, IPPROTO_TCP});
  // io_uring would do all of it without these calls.
  rules.refuse(SCMP_SYS(io_uring_setup));
  return rules.load();
}

}  // namespace tritonforge::evaluate
