#pragma once
// Boost.Asio for net/*.cpp (and its tests) only, and the few helpers both sides of a connection share. Asio's and
// Beast's own code is compiled once, in asio_impl.cpp.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION
#define BOOST_ASIO_NO_DEPRECATED
#define BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE 16  // coroutine frames a thread keeps: a forwarded request has ten
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

namespace tritonforge::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

// Completion token: co_await gives (error_code, ...) and does not throw.
inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

}  // namespace tritonforge::net
