#pragma once
// A message with descriptors between the trusted side and its Python parent, over a socket that keeps messages apart.
// In a header, since the parent's end is part of a library of its own (sandbox/).
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace tritonforge::evaluate {

// Bytes of the message, which are in `room` then, of at most `size`; 0 where the other side has gone, -1 and errno.
inline ssize_t receive_packet(int socket, char* room, size_t size, std::vector<int>& fds) {
  iovec part{room, size};
  alignas(cmsghdr) char beside[CMSG_SPACE(4 * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = beside;
  header.msg_controllen = sizeof beside;
  ssize_t got;
  do {
    got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  fds.clear();
  if (got <= 0) return got;
  for (const cmsghdr* item = CMSG_FIRSTHDR(&header); item; item = CMSG_NXTHDR(&header, const_cast<cmsghdr*>(item))) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    fds.resize((item->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds.data(), CMSG_DATA(item), fds.size() * sizeof(int));
  }
  return got;
}

// fd: a descriptor that goes with it, or -1.
inline bool send_packet(int socket, std::string_view message, int fd = -1) {
  iovec part{const_cast<char*>(message.data()), message.size()};
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = beside;
    header.msg_controllen = sizeof beside;
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

}  // namespace tritonforge::evaluate
