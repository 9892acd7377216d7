#include "net/foreign_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/wire.h"
#include "unit/net/raw_socket.h"

namespace tritonforge::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

TEST(Loopback, IsAnAddressAndNeverTheBeginningOfAName) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1", "localhost", "LocalHost"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "127.", "127.evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "128.0.0.1",
                           "10.0.0.1", "0.0.0.0", "::", "::2", "::ffff:10.0.0.1", "[::1]", "evil.com"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

std::optional<std::string> asked(const std::string& method, Headers headers) {
  Request request;
  request.method = method;
  request.path = "/x";
  request.headers = std::move(headers);
  return foreign_page(request, method == "GET");
}

TEST(ForeignPage, AnyNameButLoopbacksIsRefusedWhateverIsAsked) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:8080", "localhost:1", "[::1]:8080", "127.9.9.9:80"})
    EXPECT_EQ(asked("GET", {{"host", host}}), std::nullopt) << host;
  for (const char* host : {"evil.com", "evil.com:8080", "127.evil.com:8080", "localhost, evil.com", "localhost:0",
                           "x@localhost", "localhost/x", "localhost:80:evil.com", "[::1].evil.com", "", "0.0.0.0:8080"})
    EXPECT_THAT(asked("GET", {{"host", host}}), Optional(HasSubstr(fmt::format("'{}' is not this server", host))));
  EXPECT_EQ(asked("POST", {}), std::nullopt) << "no browser's: HTTP/1.0, or a tool's";
}

TEST(ForeignPage, ChangesNothing) {
  for (const auto& [origin, host] :
       std::vector<std::pair<std::string, std::string>>{{"http://localhost:8080", "localhost:8080"},
                                                        {"https://[::1]", "[::1]"},
                                                        {"http://LOCALHOST:1", "localhost:1"}})
    EXPECT_EQ(asked("POST", {{"host", host}, {"origin", origin}}), std::nullopt) << origin;
  for (const char* origin : {"https://evil.com", "http://localhost:8081", "http://localhost", "null", "",
                             "http://localhost:8080.evil.com", "localhost:8080"}) {
    const Headers headers = {{"host", "localhost:8080"}, {"origin", origin}};
    for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"})
      EXPECT_THAT(asked(method, headers),
                  Optional(StartsWith(fmt::format("{} /x from a page of '{}'", method, origin))));
    EXPECT_EQ(asked("GET", headers), std::nullopt) << "it cannot read the reply";
  }
  EXPECT_NE(asked("POST", {{"origin", "http://localhost"}}), std::nullopt) << "who says an Origin says a Host";
}

// What a server answers to an empty request.
std::string reply_to(const std::string& headers, const std::string& key, const std::string& asked = "POST /x") {
  ServerOptions options;
  options.api_key = key;
  HttpServer server(options);
  const auto done = [](const Request&) { return Response::text("done"); };
  server.route("POST", "/x", done);
  server.route("GET", "/flush", done, Effect::kChanges);
  server.route("GET", "/read", done);
  server.route_async("*", "/passed_on", [](Request&, ResponderPtr reply) { reply->send(Response::text("done")); });
  server.start();
  RawSocket socket(server.port());
  socket.send(asked + " HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n" + headers + "\r\n");
  return socket.read_all();
}

TEST(ForeignPage, SendsNoGetThatChangesSomethingAndIsKnownByItsSite) {
  const std::string host = "Host: localhost:1\r\n";
  for (const std::string asked : {"GET /flush", "HEAD /flush", "GET /passed_on"}) {
    for (const std::string from : {"Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n",
                                   "Origin: https://evil.com\r\n", "Origin: null\r\nSec-Fetch-Site: none\r\n"})
      EXPECT_THAT(reply_to(host + from, "", asked), StartsWith("HTTP/1.1 403 ")) << asked << from;
    for (const std::string from : {"", "Sec-Fetch-Site: none\r\n", "Sec-Fetch-Site: same-origin\r\n"})
      EXPECT_THAT(reply_to(host + from, "", asked), StartsWith("HTTP/1.1 200 ")) << asked << from;
  }
  EXPECT_THAT(reply_to(host + "Sec-Fetch-Site: cross-site\r\n", "", "GET /read"), StartsWith("HTTP/1.1 200 "))
      << "it cannot read the reply";
}

TEST(ForeignPage, ReadsAndNoMoreWithWhatABrowserSendsByItself) {
  const std::string basic = "Host: localhost:1\r\nAuthorization: Basic bmFtZTpr\r\n";  // name:k
  EXPECT_THAT(reply_to(basic, "k", "GET /read"), StartsWith("HTTP/1.1 200 "));
  for (const std::string asked : {"GET /flush", "HEAD /flush", "GET /passed_on", "POST /x"})
    EXPECT_THAT(reply_to(basic, "k", asked), StartsWith("HTTP/1.1 401 ")) << asked;
  EXPECT_THAT(reply_to("Host: localhost:1\r\nAuthorization: Bearer k\r\n", "k", "GET /flush"),
              StartsWith("HTTP/1.1 200 "));
}

TEST(ForeignPage, IsRefusedByAServerWithoutAKeyAndIsNoneForWhoHasOne) {
  for (const std::string headers : {"Host: evil.com\r\n", "Host: localhost:1\r\nOrigin: https://evil.com\r\n"}) {
    const std::string refusal = reply_to(headers, "");
    EXPECT_THAT(refusal, StartsWith("HTTP/1.1 403 Forbidden\r\n"));
    EXPECT_THAT(refusal, HasSubstr("\"type\":\"usage\""));
    EXPECT_THAT(reply_to(headers, "k"), StartsWith("HTTP/1.1 401 ")) << "a page has no key";
    EXPECT_THAT(reply_to(headers + "Authorization: Bearer k\r\n", "k"), StartsWith("HTTP/1.1 200 "));
  }
}

}  // namespace
}  // namespace tritonforge::net
