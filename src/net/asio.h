#pragma once
// Boost.Asio for net/*.cpp only, and the few helpers both sides of a connection share.
#include <sys/socket.h>

#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace tritonforge::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

// Sends what the kernel takes at once: how much that was. 0 also where the socket is broken; the next operation on it
// says how. A reply mostly fits, and then needs neither a timer nor a turn of the loop.
inline size_t send_now(tcp::socket& socket, std::string_view bytes) {
  const ssize_t sent = ::send(socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent > 0 ? static_cast<size_t>(sent) : 0;
}

// Completion token: co_await gives (error_code, ...) and does not throw.
inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

}  // namespace tritonforge::net
