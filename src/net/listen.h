#pragma once
// Sockets that listen. asio sets no close-on-exec on what it opens; a child process must not keep a port.
#include <string>

#include "net/asio.h"

namespace tritonforge::net {

// A descriptor that listens there, not blocking; port 0: any. Throws kUnavailable naming `host`.
int listen_on(const asio::ip::address& address, const std::string& host, int port);
int accept_from(int listening);  // the next connection's; -1 with errno
// For a connection, not blocking; -1 with errno.
int open_socket(bool v6);

}  // namespace tritonforge::net
