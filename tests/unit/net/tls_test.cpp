#include "net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <future>
#include <latch>
#include <thread>

#include "base/rng.h"
#include "net/async_client.h"
#include "net/http.h"
#include "unit/net/certificates.h"
#include "unit/net/cutting_proxy.h"
#include "unit/net/raw_socket.h"
#include "unit/net/streamed.h"

namespace tritonforge::net {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// An authority, one that nobody believes, and certificates of both.
class Tls : public ::testing::Test {
 protected:
  TlsFiles believing(TlsFiles files) const {
    files.ca = ours_.file();
    return files;
  }
  ServerOptions one_way() const {
    ServerOptions options;
    options.tls = server_;
    return options;
  }
  ServerOptions mutual() const {
    ServerOptions options;
    options.tls = believing(server_);
    return options;
  }
  HttpClient client(const TlsFiles& files, double timeout_s = 60) const {
    return HttpClient({.timeout_s = timeout_s, .api_key = "", .headers = {}, .tls = files});
  }
  static void add_echo(HttpServer& server) {
    server.route("POST", "/echo",
                 [](const Request& request) { return Response{200, request.body, "application/octet-stream", {}}; });
    server.route("GET", "/x", [](const Request&) { return Response::text("x"); });
  }
  static std::string bytes(size_t size) {
    std::string body(size, '\0');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 2654435761u >> 13);
    return body;
  }
  // What asking `url` fails with.
  Error refused(const std::string& url, const TlsFiles& files) const {
    const auto reply = client(files).get(url);
    if (reply.ok()) {
      ADD_FAILURE() << url << " answers " << reply.value().status << " " << reply.value().body;
      return Error(ErrorKind::kInternal, "");
    }
    EXPECT_THAT(reply.error().what(), StartsWith("GET " + url + ": "));
    EXPECT_EQ(std::string(reply.error().what()).find('\n'), std::string::npos);
    return reply.error();
  }

  const TemporaryFolder folder_{"tf-tls"};
  const Authority ours_{folder_.path(), "ours"}, others_{folder_.path(), "others"};
  const TlsFiles server_ = ours_.issue("server", "DNS:localhost,IP:127.0.0.1");
  const TlsFiles role_ = believing(ours_.issue("role", "DNS:role"));
  const TlsFiles anybody_ = believing({});  // no certificate of its own
};

// A client of OpenSSL's own, which can be what HttpClient is not.
class RawTls {
 public:
  RawTls(int port, int max_version, const std::string& protocol)
      : socket_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_min_proto_version(context_, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_, max_version);
    ssl_ = SSL_new(context_);
    SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(protocol.data()),
                        static_cast<unsigned>(protocol.size()));
    SSL_set_fd(ssl_, socket_.fd());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~RawTls() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  SSL* ssl() const { return ssl_; }
  bool send(std::string_view text) { return SSL_write(ssl_, text.data(), static_cast<int>(text.size())) > 0; }
  std::string read_all() {  // up to the server's own word that nothing follows, or its absence
    std::string got;
    char buffer[4096];
    int size;
    while ((size = SSL_read(ssl_, buffer, sizeof buffer)) > 0) got.append(buffer, static_cast<size_t>(size));
    ended_ = SSL_get_error(ssl_, size) == SSL_ERROR_ZERO_RETURN;
    return got;
  }
  bool ended() const { return ended_; }

 private:
  RawSocket socket_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false, ended_ = false;
};

// A server that answers one request with `text` and closes, with TLS's word that nothing follows or without it.
class OneReply {
 public:
  OneReply(const TlsFiles& files, std::string text, bool ends) {
    thread_ = std::thread([this, files, text = std::move(text), ends] {
      SSL_CTX* context = SSL_CTX_new(TLS_server_method());
      SSL_CTX_use_certificate_chain_file(context, files.cert.c_str());
      SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM);
      SSL* ssl = SSL_new(context);
      const int peer = listening_.accept();
      SSL_set_fd(ssl, peer);
      char request[4096];
      if (SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof request) > 0) {
        SSL_write(ssl, text.data(), static_cast<int>(text.size()));
        if (ends) SSL_shutdown(ssl);
      }
      SSL_free(ssl);
      SSL_CTX_free(context);
      ::close(peer);
    });
  }
  ~OneReply() { thread_.join(); }
  std::string url() const { return fmt::format("https://127.0.0.1:{}/x", listening_.port); }

 private:
  const Listening listening_;
  std::thread thread_;
};

TEST_F(Tls, RequestsRepliesAndLargeBodies) {
  HttpServer server(one_way());
  add_echo(server);
  server.start();
  EXPECT_THAT(server.url(), StartsWith("https://127.0.0.1:"));
  HttpClient asks = client(anybody_);
  EXPECT_EQ(asks.get(server.url() + "/x").value().body, "x");
  EXPECT_EQ(asks.get(fmt::format("https://localhost:{}/x", server.port())).value().body, "x");
  for (const size_t size : {size_t{1}, size_t{16383}, size_t{16384}, size_t{70000}, size_t{32} << 20}) {
    const std::string body = bytes(size);
    EXPECT_TRUE(asks.request("POST", server.url() + "/echo", body, "").value().body == body) << size;
  }
  EXPECT_EQ(asks.get(server.url() + "/none").value().status, 404);
}

TEST_F(Tls, AConnectionIsKept) {
  HttpServer server(one_way());
  add_echo(server);
  server.start();
  CuttingProxy proxy(server.port(), [] { return 0; }, /*cuts=*/0);
  HttpClient asks = client(anybody_);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(asks.get(fmt::format("https://127.0.0.1:{}/x", proxy.port())).value().body, "x");
  EXPECT_EQ(proxy.connections(), 1);
}

TEST_F(Tls, ARestartBetweenRequestsIsNotSeen) {
  HttpClient asks = client(anybody_);
  ServerOptions options = one_way();
  for (int i = 0; i < 3; ++i) {
    HttpServer server(options);
    options.port = server.port();
    server.route("POST", "/n", [i](const Request&) { return Response::text(std::to_string(i)); });
    server.start();
    EXPECT_EQ(asks.post(server.url() + "/n", {}).value().body, std::to_string(i));
  }
}

TEST_F(Tls, ManyRequestsAtOnce) {
  constexpr int kRequests = 300;
  ServerOptions options = one_way();
  options.io_threads = 2;
  HttpServer server(options);
  add_echo(server);
  server.start();
  AsyncClient asks(anybody_);
  std::latch all(kRequests);
  std::atomic<int> right{0};
  std::vector<std::string> bodies(kRequests), replies(kRequests);
  Rng random(1);
  for (size_t i = 0; i < kRequests; ++i) {
    bodies[i] = bytes(1 + random.below(200'000));
    AsyncRequest request;
    request.method = "POST";
    request.url = server.url() + "/echo";
    request.body = std::make_shared<const std::string>(bodies[i]);
    asks.send(request, {[](int, const Headers&) {},
                        [&, i](std::string_view piece) {
                          replies[i] += piece;
                          return true;
                        },
                        [&, i](std::optional<Error> error, bool) {
                          if (error) ADD_FAILURE() << error->what();
                          if (replies[i] == bodies[i]) ++right;
                          all.count_down();
                        }});
  }
  all.wait();
  EXPECT_EQ(right, kRequests);
}

TEST_F(Tls, AStreamComesAsItIsWritten) {
  HttpServer server(one_way());
  std::promise<ResponderPtr> begun;
  server.route_async("GET", "/s", [&](const Request&, ResponderPtr reply) {
    reply->begin_stream(200, "text/event-stream");
    reply->write(sse_event("0"));
    begun.set_value(std::move(reply));
  });
  server.start();
  ResponderPtr reply;
  SseParser parser;
  std::vector<std::string> events;
  const auto end = streamed(
      {.url = server.url() + "/s"},
      [&](std::string_view piece) {
        parser.feed(piece, [&](std::string_view data) {
          events.emplace_back(data);
          if (!reply) reply = begun.get_future().get();
          if (events.size() < 5) reply->write(sse_event(std::to_string(events.size())));  // after the last one came
          else reply->end_stream();
        });
        return true;
      },
      anybody_);
  EXPECT_EQ(end.value().status, 200);
  EXPECT_EQ(events, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
}

TEST_F(Tls, AClientThatLeavesIsNoticed) {
  HttpServer server(one_way());
  std::promise<void> gone, left, waiting;
  server.route_async("GET", "/s", [&](const Request&, ResponderPtr reply) {
    reply->on_disconnect([&gone, reply] { gone.set_value(); });
    reply->begin_stream(200, "text/event-stream");
    reply->write(sse_event("1"));
  });
  server.route("GET", "/blocks", [&](const Request& request) {
    std::promise<void> stopped;
    const std::stop_callback on_left(request.left, [&] { stopped.set_value(); });
    waiting.set_value();
    stopped.get_future().wait();
    left.set_value();
    return Response::text("nobody reads it");
  });
  server.start();
  EXPECT_TRUE(streamed({.url = server.url() + "/s"}, [](std::string_view) { return false; }, anybody_).ok());
  EXPECT_EQ(gone.get_future().wait_for(60s), std::future_status::ready);
  AsyncClient asks(anybody_);
  const auto call = asks.send(
      {.url = server.url() + "/blocks"},
      {[](int, const Headers&) {}, [](std::string_view) { return true; }, [](std::optional<Error>, bool) {}});
  waiting.get_future().wait();
  call->cancel();
  EXPECT_EQ(left.get_future().wait_for(60s), std::future_status::ready);
}

TEST_F(Tls, ALostServerIsNoEndOfAReply) {
  HttpServer server(one_way());
  server.route_async("GET", "/s", [&](const Request&, ResponderPtr reply) {
    reply->begin_stream(200, "application/octet-stream");
    reply->write(bytes(1 << 20));
    reply->end_stream();
  });
  server.start();
  CuttingProxy proxy(server.port(), [] { return 300'000; }, /*cuts=*/1);
  const auto reply = client(anybody_).get(fmt::format("https://127.0.0.1:{}/s", proxy.port()));
  EXPECT_EQ(reply.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(reply.error().what(), HasSubstr("in the middle of its reply"));
}

TEST_F(Tls, AReplyThatEndsWithTheConnectionMustSaySo) {
  const std::string text = "HTTP/1.1 200 OK\r\n\r\nuntil the end";
  OneReply whole(server_, text, /*ends=*/true), cut(server_, text, /*ends=*/false);
  EXPECT_EQ(client(anybody_).get(whole.url()).value().body, "until the end");
  EXPECT_THAT(client(anybody_).get(cut.url()).error().what(), HasSubstr("in the middle of its reply"));
}

TEST_F(Tls, AChangedByteIsNoReply) {
  HttpServer server(one_way());
  server.route("GET", "/s", [](const Request&) { return Response::text(bytes(1 << 20)); });
  server.start();
  CuttingProxy proxy(server.port(), [] { return 0; }, /*cuts=*/0);
  proxy.spoil(300'000, 1);
  const auto reply = client(anybody_).get(fmt::format("https://127.0.0.1:{}/s", proxy.port()));
  EXPECT_EQ(proxy.spoiled(), 1);
  EXPECT_EQ(reply.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(reply.error().what(), HasSubstr("TLS failed: decryption failed or bad record mac"));
}

TEST_F(Tls, LimitsAndDeadlinesHold) {
  ServerOptions options = one_way();
  options.max_body = 1000;
  HttpServer server(options);
  add_echo(server);
  std::promise<ResponderPtr> held;
  server.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) { held.set_value(std::move(reply)); });
  server.start();
  EXPECT_EQ(client(anybody_).request("POST", server.url() + "/echo", bytes(8 << 20), "").value().status, 413);
  const auto late = client(anybody_, 0.3).get(server.url() + "/wait");
  EXPECT_EQ(late.error().kind(), ErrorKind::kTimeout);
  EXPECT_THAT(late.error().what(), HasSubstr("/wait: no complete reply within 0.3 s"));
  held.get_future().get().reset();
}

TEST_F(Tls, StopWaitsForARequestUnderWay) {
  HttpServer server(one_way());
  std::promise<ResponderPtr> taken;
  server.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) { taken.set_value(std::move(reply)); });
  server.start();
  RawSocket silent(server.port());  // holds nothing up
  auto asks = std::async(std::launch::async, [&] { return client(anybody_).get(server.url() + "/wait"); });
  const ResponderPtr reply = taken.get_future().get();
  auto stopped = std::async(std::launch::async, [&] { server.stop(60); });
  silent.read_all(10'000);
  EXPECT_TRUE(silent.closed());  // so it stops
  reply->send(Response::text("done"));
  EXPECT_EQ(asks.get().value().body, "done");
  EXPECT_EQ(stopped.wait_for(60s), std::future_status::ready);
}

TEST_F(Tls, RolesAuthenticateEachOther) {
  HttpServer server(mutual());
  add_echo(server);
  server.start();
  const std::string url = server.url() + "/x";
  HttpClient knows = client(role_);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(knows.get(url).value().body, "x");
  const std::string body = bytes(3 << 20);
  EXPECT_TRUE(knows.request("POST", server.url() + "/echo", body, "").value().body == body);

  const Error without = refused(url, anybody_);
  EXPECT_EQ(without.kind(), ErrorKind::kUsage);
  EXPECT_THAT(without.what(), HasSubstr("the server takes only clients with a certificate"));
  EXPECT_THAT(without.what(), HasSubstr("TRITONFORGE_TLS_CERT"));
  const TlsFiles stranger = believing(others_.issue("stranger", "DNS:role"));
  EXPECT_THAT(refused(url, stranger).what(), HasSubstr("the server refuses the certificate " + stranger.cert.string()));
  const TlsFiles old = believing(ours_.issue("old-role", "DNS:role", /*ends_s=*/-60));
  EXPECT_THAT(refused(url, old).what(), HasSubstr("certificate expired"));
  EXPECT_EQ(knows.get(url).value().body, "x");
}

TEST_F(Tls, AServerThatIsNotBelievedIsNamed) {
  HttpServer server(one_way());
  add_echo(server);
  server.start();
  const Error unknown = refused(server.url() + "/x", {{}, {}, others_.file()});
  EXPECT_EQ(unknown.kind(), ErrorKind::kUsage);
  EXPECT_THAT(unknown.what(),
              HasSubstr("the server's certificate is not signed by an authority of " + others_.file().string()));
  EXPECT_THAT(unknown.what(), HasSubstr("--tls-ca"));
  EXPECT_THAT(refused(server.url() + "/x", {}).what(), HasSubstr("not signed by an authority of this system"));

  ServerOptions of_another = one_way();
  of_another.tls = ours_.issue("another", "DNS:engine-1.example,IP:192.0.2.7");
  HttpServer another(of_another);
  another.start();
  EXPECT_THAT(refused(another.url() + "/x", anybody_).what(),
              HasSubstr("is for engine-1.example, 192.0.2.7, not for 127.0.0.1: name the server so"));
  EXPECT_THAT(refused(fmt::format("https://localhost:{}/x", another.port()), anybody_).what(),
              HasSubstr("not for localhost"));

  ServerOptions expired = one_way();
  expired.tls = ours_.issue("expired", "IP:127.0.0.1", /*ends_s=*/-60);
  ::testing::internal::CaptureStdout();
  HttpServer old(expired);
  old.start();
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr(expired.tls.cert.string() + " has expired ("));
  const Error past = refused(old.url() + "/x", anybody_);
  EXPECT_THAT(past.what(), HasSubstr("the server's certificate has expired ("));
  EXPECT_THAT(past.what(), HasSubstr("--tls-cert"));
}

TEST_F(Tls, PlainAndTlsDoNotMix) {
  HttpServer server(one_way());
  HttpServer plain({});
  add_echo(server);
  add_echo(plain);
  server.start();
  plain.start();
  EXPECT_THAT(refused(fmt::format("https://127.0.0.1:{}/x", plain.port()), anybody_).what(),
              HasSubstr("the server speaks no TLS on this port: write http://"));
  HttpClient asks;
  for (const char* method : {"POST", "DELETE"}) {
    const auto reply = asks.request(method, fmt::format("http://127.0.0.1:{}/echo", server.port()), bytes(100'000), "");
    EXPECT_EQ(reply.value().status, 400);
    EXPECT_THAT(reply.value().body, HasSubstr("this port speaks TLS: write https://"));
  }
  RawSocket noise(server.port());
  noise.send("\x01\x02 neither\r\n\r\n");
  noise.read_all();
  EXPECT_TRUE(noise.closed());
  EXPECT_EQ(client(anybody_).get(server.url() + "/x").value().body, "x");
}

TEST_F(Tls, ASilentClientIsDroppedAndHoldsUpNobody) {
  for (const bool patient : {true, false}) {
    ServerOptions options = one_way();
    if (!patient) options.header_timeout_s = 0.2;
    HttpServer server(options);
    add_echo(server);
    server.start();
    RawSocket silent(server.port()), half(server.port());
    half.send(std::string_view("\x16\x03\x01\x02\x00\x01", 6));  // the beginning of a handshake
    if (patient) {
      EXPECT_EQ(client(anybody_).get(server.url() + "/x").value().body, "x");
      EXPECT_FALSE(silent.closed());
    } else {
      silent.read_all(20'000);
      half.read_all(20'000);
      EXPECT_TRUE(silent.closed());
      EXPECT_TRUE(half.closed());
    }
  }
}

// Their ends are seen by one thread while another one takes the next connections.
TEST_F(Tls, ConnectionsThatComeAndGoCostOthersNothing) {
  ServerOptions options = one_way();
  options.io_threads = 4;
  HttpServer server(options);
  add_echo(server);
  server.start();
  std::atomic<bool> enough{false};
  std::atomic<int> answered{0};
  std::vector<std::thread> passing, staying;
  for (int i = 0; i < 4; ++i) {
    passing.emplace_back([&] {
      while (!enough) {
        const RawSocket one(server.port()), two(server.port());
      }
    });
    staying.emplace_back([&] {
      for (int n = 0; n < 100; ++n) {
        const auto reply = client(anybody_).get(server.url() + "/x");
        if (reply.ok()) ++answered;
        else ADD_FAILURE() << reply.error().what();
      }
    });
  }
  for (std::thread& thread : staying) thread.join();
  enough = true;
  for (std::thread& thread : passing) thread.join();
  EXPECT_EQ(answered, 400);
}

TEST_F(Tls, VersionsAndProtocols) {
  HttpServer server(one_way());
  add_echo(server);
  server.start();
  const std::string http11 = "\x08http/1.1", http2_or_11 = "\x02h2" + http11;
  EXPECT_FALSE(RawTls(server.port(), TLS1_1_VERSION, http11).connected());
  EXPECT_FALSE(RawTls(server.port(), TLS1_3_VERSION, "\x02h2").connected());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    RawTls client(server.port(), version, http2_or_11);
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(client.protocol(), "http/1.1");
    EXPECT_TRUE(client.send("GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    EXPECT_THAT(client.read_all(), HasSubstr("\r\n\r\nx"));
    EXPECT_TRUE(client.ended());
  }
  RawTls again(server.port(), TLS1_2_VERSION, http11);
  ASSERT_TRUE(again.connected());
  EXPECT_TRUE(SSL_renegotiate(again.ssl()) == 0 || SSL_do_handshake(again.ssl()) != 1 ||
              !again.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n") || SSL_renegotiate_pending(again.ssl()));
}

TEST_F(Tls, PipelinedRequestsAreReadWhileRepliesAreWritten) {
  HttpServer server(one_way());
  add_echo(server);
  server.start();
  RawTls client(server.port(), TLS1_3_VERSION, "\x08http/1.1");
  const std::string one(300'000, '1'), two(300'000, '2');
  const auto request = [](const std::string& body, const char* more) {
    return fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", body.size(), more,
                       body);
  };
  ASSERT_TRUE(client.send(request(one, "") + request(two, "Connection: close\r\n")));
  const std::string got = client.read_all();
  const size_t first = got.find(one), second = got.find(two);
  EXPECT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_TRUE(client.ended());
}

TEST_F(Tls, FilesThatAreNoGoodAreNamed) {
  const auto kind_of = [&](const TlsFiles& files, const std::string& named) {
    ServerOptions options;
    options.tls = files;
    try {
      HttpServer server(options);
      ADD_FAILURE() << named;
      return ErrorKind::kInternal;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith(named));
      return error.kind();
    }
  };
  const fs::path text = folder_.path() / "text", locked = folder_.path() / "locked";
  write_file_atomic(text, "not PEM\n");
  EXPECT_EQ(kind_of({"/none.pem", server_.key, {}}, "/none.pem: no such file"), ErrorKind::kNotFound);
  EXPECT_EQ(kind_of({text, server_.key, {}}, text.string() + ": no certificate in PEM"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({server_.cert, text, {}}, text.string() + ": no private key"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({server_.cert, role_.key, {}}, role_.key.string() + ": no private key"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of({server_.cert, server_.key, text}, text.string() + ": no certificate"), ErrorKind::kUsage);
  {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    std::FILE* out = std::fopen(locked.c_str(), "w");
    PEM_write_PrivateKey(out, key.get(), EVP_aes_256_cbc(), reinterpret_cast<const unsigned char*>("word"), 4, nullptr,
                         nullptr);
    std::fclose(out);
  }
  EXPECT_EQ(kind_of({server_.cert, locked, {}}, locked.string() + ": no private key"), ErrorKind::kUsage);
  EXPECT_THROW(HttpClient({.timeout_s = 1, .api_key = "", .headers = {}, .tls = TlsFiles{{}, {}, text}}), Error);
}

TEST_F(Tls, AProcessHasOneIdentity) {
  const auto clear = [] {
    for (const char* name : {kTlsCertVariable, kTlsKeyVariable, kTlsCaVariable}) ::unsetenv(name);
  };
  clear();
  EXPECT_THROW((TlsFiles{server_.cert, {}, {}}.or_environment()), Error);
  EXPECT_THROW((TlsFiles{{}, server_.key, {}}.or_environment()), Error);
  EXPECT_THROW((TlsFiles{{}, {}, ours_.file()}.or_environment()), Error);
  EXPECT_EQ(TlsFiles{}.or_environment().cert, "");

  ::setenv(kTlsCertVariable, role_.cert.c_str(), 1);
  ::setenv(kTlsKeyVariable, role_.key.c_str(), 1);
  ::setenv(kTlsCaVariable, ours_.file().c_str(), 1);
  HttpServer server(mutual());
  add_echo(server);
  server.start();
  HttpClient own;
  EXPECT_EQ(own.get(server.url() + "/x").value().body, "x");

  ServerOptions given;
  given.tls = {.cert = server_.cert, .key = server_.key, .ca = others_.file()};
  given.read_secrets();
  EXPECT_EQ(given.tls.cert, server_.cert);
  EXPECT_THAT(HttpClient().get(server.url() + "/x").error().what(), HasSubstr(others_.file().string()));
  clear();
  use_tls({});
}

}  // namespace
}  // namespace tritonforge::net
