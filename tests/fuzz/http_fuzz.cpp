// libs: tf_net
// Raw bytes at a listening server, and at a client as a server's reply: both must answer, refuse or close, and the
// server must still serve afterwards.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "net/http.h"
#include "net/wire.h"

using namespace tritonforge;
using namespace tritonforge::net;

namespace {

HttpServer& server() {
  static HttpServer* instance = [] {
    ServerOptions options;
    options.max_body = 4096;
    auto* created = new HttpServer(options);
    created->route("POST", "/echo/{name}", [](const Request& request) { return Response::text(request.body); });
    created->route("GET", "/health", [](const Request&) { return Response::text("ok"); });
    created->route_async("*", "/any/*", [](const Request& request, ResponderPtr reply) {
      reply->begin_stream(200, "text/plain");
      reply->write(request.target);
      reply->end_stream();
    });
    created->start();
    return created;
  }();
  return *instance;
}

bool is_healthy() {
  static HttpClient client;
  const auto reply = client.get(server().url() + "/health");
  return reply.ok() && reply.value().status == 200;
}

void throw_at_server(std::string_view bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server().port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const linger reset{1, 0};  // no TIME_WAIT: thousands of connections
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    ::shutdown(fd, SHUT_WR);
    char buffer[4096];
    while (::recv(fd, buffer, sizeof buffer, 0) > 0) {}
  }
  ::close(fd);
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  static long count = 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse_query(text);
  percent_decode(text, true);
  try {
    parse_url(std::string(text));
  } catch (const Error&) {}
  throw_at_server(text);
  return ++count % 256 != 0 || is_healthy() ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "POST /echo/a%20b?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGET /health HTTP/1.0\r\n\r\n",
      "PUT /any/thing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: "
      "100-continue\r\n\r\n3\r\nabc\r\n0\r\n\r\n"};
}
