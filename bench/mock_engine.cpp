// libs: tf_contract tf_net
// Engines that answer at once: the least that a router's benchmark can stand on. usage: mock_engine COUNT REPLY_BYTES
// Listens on COUNT free ports of the loopback, prints them in one line and serves all from one thread until it is
// killed. Any GET is answered 200 with {}, any POST with REPLY_BYTES bytes of JSON. No pipelining.
// New weights (POST /update_weights_from_tensor) are fetched where the request names a host, by threads of their own as
// an engine's, and dropped; the answer is the publisher's version and checksums. Prints a line with the time (of
// CLOCK_MONOTONIC, in seconds) for each.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "contract/weights.h"
#include "net/bulk.h"

namespace {

using namespace tritonforge;

std::string reply_of(const std::string& body) {
  return fmt::format("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}", body.size(),
                     body);
}

int listen_anywhere(int& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd, 4096) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail(ErrorKind::kUnavailable, "cannot listen on the loopback");
  port = ntohs(address.sin_port);
  return fd;
}

void watch(int poll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) fail(ErrorKind::kUnavailable, "cannot watch a socket");
}

// The bytes of the first request in `input` once it is whole, else 0.
size_t whole_request(const std::string& input) {
  const size_t head = input.find("\r\n\r\n");
  if (head == std::string::npos) return 0;
  size_t body = 0;
  for (const char* name : {"content-length: ", "Content-Length: "}) {
    const size_t at = input.find(name);
    if (at < head) body = std::strtoul(input.c_str() + at + 16, nullptr, 10);
  }
  const size_t size = head + 4 + body;
  return input.size() < size ? 0 : size;
}

// Everybody's weights go to the same memory: they are the same, and nobody reads them.
std::span<std::byte> memory_for(uint64_t bytes) {
  static std::vector<std::byte> memory(bytes);
  TF_CHECK(memory.size() == bytes, "{} bytes after {}", bytes, memory.size());
  return memory;
}

void take_weights(int fd, const std::string& request) {
  std::string reply;
  try {
    const Json body = parse_json(request.substr(request.find("\r\n\r\n")), "an update");
    if (body.contains("tcp")) {
      const StreamedWeights from = streamed_weights_from_json(body.at("tcp"));
      const auto version = std::stoull(body.at("weight_version").get<std::string>());
      net::bulk_fetch({.host = from.host, .port = from.port, .key = "bench", .version = version}, memory_for,
                      Deadline::after(600));
    }
    reply = reply_of(Json{{"weight_version", body.at("weight_version")}, {"checksums", body.at("checksums")}}.dump());
    fmt::print("{:.6f}\n", std::chrono::duration<double>(Clock::now().time_since_epoch()).count());
    std::fflush(stdout);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    reply = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
  }
  ::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2, bytes = argc > 2 ? std::atoi(argv[2]) : 256;
  const std::string get = reply_of("{}");
  const std::string post = reply_of(fmt::format("{{\"text\": \"{}\"}}", std::string(static_cast<size_t>(bytes), 'x')));
  const int poll = ::epoll_create1(0);
  std::set<int> listeners;
  for (int i = 0; i < count; ++i) {
    int port = 0;
    const int fd = listen_anywhere(port);
    listeners.insert(fd);
    watch(poll, fd);
    fmt::print("{}{}", port, i + 1 == count ? "\n" : " ");
  }
  std::fflush(stdout);
  std::map<int, std::string> inputs;
  std::array<epoll_event, 256> events;
  std::array<char, 65536> chunk;
  for (;;) {
    const int ready = ::epoll_wait(poll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (listeners.count(fd)) {
        const int fresh = ::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK);
        if (fresh < 0) continue;
        const int on = 1;
        ::setsockopt(fresh, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watch(poll, fresh);
        continue;
      }
      const ssize_t got = ::recv(fd, chunk.data(), chunk.size(), 0);
      if (got <= 0) {
        inputs.erase(fd);
        ::close(fd);
        continue;
      }
      std::string& input = inputs[fd];
      input.append(chunk.data(), static_cast<size_t>(got));
      while (const size_t size = whole_request(input)) {
        const std::string request = input.substr(0, size);
        input.erase(0, size);
        if (request.starts_with("POST /update_weights_from_tensor ")) {
          std::thread(take_weights, fd, request).detach();
          break;
        }
        const std::string& reply = request.starts_with("GET") ? get : post;
        if (::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(reply.size())) break;
      }
    }
  }
}
