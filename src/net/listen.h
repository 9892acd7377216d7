#pragma once
// Sockets that listen. asio sets no close-on-exec on what it opens; a child process must not keep a port.
#include <functional>
#include <string>

#include "net/asio.h"

namespace tritonforge::net {

// A descriptor that listens there, not blocking; port 0: any. Throws kUnavailable naming `host`.
int listen_on(const asio::ip::address& address, const std::string& host, int port);
// Calls `take` with each connection, which lives on `executor()`, until the acceptor is closed. Where one cannot be had
// (no descriptors are left, the loop cannot watch it) the log says so, and the next one is waited for.
awaitable<void> accept_each(tcp::acceptor& acceptor, std::function<asio::any_io_executor()> executor,
                            std::function<void(tcp::socket)> take);
// For a connection, not blocking; -1 with errno.
int open_socket(bool v6);
// Small messages at once; the connection fails once its other machine has taken nothing, or answered no probe, for so
// long (a process that only thinks goes on answering them: its kernel does).
void notice_silence(int fd, int seconds);

}  // namespace tritonforge::net
