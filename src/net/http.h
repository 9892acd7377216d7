#pragma once
// HTTP/1.1 server and client over Boost.Beast; nothing of Boost appears outside net/*.cpp.
//
// Server: connections are coroutines on a few I/O threads. A blocking handler runs on a bounded pool of worker
// threads (a full queue answers 503 with Retry-After); an asynchronous handler gets a Responder that any thread may
// complete later, so a request that waits for tokens holds no thread.
//
// Every role's server has one shape, over a core that knows no HTTP and outlives it:
//   class XServer {
//     XServer(X& core, net::ServerOptions options);  // binds the port
//     void start();                                  // returns once it listens
//     void stop(double grace_s = 5);                 // no new requests, waits for those under way; repeats are fine
//     std::string url() const;
//   };
// Its GET /health answers health_reply() without waiting for work; its GET /metrics the text of one Metrics.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/histogram.h"
#include "base/json.h"
#include "base/options.h"
#include "net/key.h"
#include "net/tls.h"

namespace tritonforge::net {

using Headers = std::map<std::string, std::string>;  // lower-case names

struct Request {
  std::string method, path;                  // path without the query
  std::string target;                        // path and query as they came
  std::map<std::string, std::string> query;  // decoded
  Headers headers;
  std::string body;
  std::string id;                                 // x-request-id of the client, or a fresh one; echoed in the reply
  Deadline deadline = Deadline::after(3600);      // from x-timeout-s where given
  std::map<std::string, std::string> parameters;  // {name} parts of the route's pattern
  // Of a blocking handler: requested once the client is gone, or has closed the half that it sends on. What nobody
  // would be told the outcome of may end then; an asynchronous handler asks its Responder.
  std::stop_token left;
  Json json() const { return parse_json(body.empty() ? "{}" : body, method + " " + path); }
};

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers;
  static Response json(const Json& value, int status = 200);  // bytes that are not UTF-8 become U+FFFD
  static Response text(std::string body, int status = 200) {
    return {status, std::move(body), "text/plain; charset=utf-8", {}};
  }
  // {"error": {"message", "type"}} and the fields of `more` beside it. An Error's status is http_status(kind), that of
  // any other exception 500; 429 and 503 carry Retry-After.
  static Response error(const std::exception& error, const Json& more = Json::object());
};

// The reply to GET /health: {"status": "green|yellow|red", "role", "detail"}, and `report` where it is not empty. Red
// is 503. Yellow works, but somebody should look: a supervisor restarts no role for it. Whoever starts the process may
// name it in TRITONFORGE_INSTANCE: it is there as "instance", so that no other process on the port is taken for it.
enum class Colour { kGreen, kYellow, kRed };
Response health_reply(Colour colour, std::string_view role, std::string_view detail,
                      const Json& report = Json::object());

// The reply of one request; thread-safe; answers 500 if dropped unanswered.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(Response response) = 0;
  // A streamed reply: begin once, write any number of chunks, end. write() returns false once the client is gone or
  // its unread bytes exceed 8 MiB (a reader that does not read is disconnected).
  virtual void begin_stream(int status, const std::string& content_type, const Headers& headers = {}) = 0;
  virtual bool write(std::string chunk) = 0;
  virtual void end_stream() = 0;
  virtual bool connected() const = 0;
  // Called once, from an I/O thread, if the client goes away before the reply is complete.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};
using ResponderPtr = std::shared_ptr<Responder>;

using Handler = std::function<Response(const Request&)>;           // may block; an Error becomes its reply
using AsyncHandler = std::function<void(Request&, ResponderPtr)>;  // must not block; may take the request's parts

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;         // 0: any free port
  std::string api_key;  // required (bearer) for any host but loopback; empty on loopback: open
  fs::path api_key_file;
  TlsFiles tls;  // without a certificate: plain HTTP
  int io_threads = 1;
  int worker_threads = 4;
  size_t max_queue = 1024;  // requests waiting for a worker
  size_t max_body = size_t{1} << 30;
  double header_timeout_s = 15;  // a request's head, from its first byte
  double idle_timeout_s = 75;    // between the requests of one connection
  double stall_timeout_s = 60;   // a client that neither sends its body nor reads its reply

  template <typename V>
  void describe(V& v) {
    v("port", port, in(0, 65535), "port to listen on; 0 = any free one");
    v("host", host, "address to listen on; any but loopback needs a key");
    v("api_key_file", api_key_file,
      "file with the bearer key that clients must send; else TRITONFORGE_API_KEY of the environment");
    v.part(tls);
  }
  // What the flags leave to the environment, and the key itself. The process's clients get the identity, too.
  void read_secrets() {
    api_key = key_from(api_key_file, kKeyVariable);
    tls = tls.or_environment();
    use_tls(tls);
  }
};

// What a request does to its server. What is passed on to another (method "*") does nobody knows what, and changes.
enum class Effect { kOfMethod, kChanges };  // kOfMethod: GET and HEAD read, the others change. Work is a change, too

class HttpServer {
 public:
  // Throws kUnavailable naming host:port where the port is in use, kUsage where a key is required and absent, kUsage or
  // kNotFound naming the file of TLS that is no good.
  explicit HttpServer(ServerOptions options);
  ~HttpServer();
  // Pattern parts in braces match one segment: "/v2/leases/{id}". Method "*" and a trailing "/*" match anything.
  void route(const std::string& method, const std::string& pattern, Handler handler, Effect effect = Effect::kOfMethod);
  void route_async(const std::string& method, const std::string& pattern, AsyncHandler handler,
                   Effect effect = Effect::kOfMethod);
  void start();  // returns once it listens
  int port() const;
  std::string url() const;        // http://127.0.0.1:30000, https:// where there is a certificate
  void stop(double grace_s = 5);  // no new requests; waits for those under way, then closes

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Bytes of a reply's body for whoever holds it whole, where nothing else is said.
inline constexpr uint64_t kLongestReply = uint64_t{1} << 30;

struct ClientOptions {
  double timeout_s = 60;                   // whole exchange
  uint64_t longest_reply = kLongestReply;  // one that is longer is kCorrupt, and is not read to its end
  std::string api_key;
  Headers headers;
  std::optional<TlsFiles> tls = std::nullopt;  // of a client, not of a single request; nullopt: the process's own
};

// Blocking client; thread-safe; keeps connections alive per host. A transport failure is kUnavailable, a deadline
// kTimeout, a certificate that is refused by either side, or TLS or HTTP that one side does not speak, kUsage: all
// naming the URL. Any HTTP status is a Response.
class HttpClient {
 public:
  explicit HttpClient(ClientOptions options = {});
  ~HttpClient();
  Result<Response> get(const std::string& url);
  Result<Response> post(const std::string& url, const Json& body);
  Result<Response> request(const std::string& method, const std::string& url, std::string body,
                           const std::string& content_type = "application/json",
                           const ClientOptions* options = nullptr);
  // post() that turns a non-2xx reply into its Error and parses the body.
  Result<Json> post_json(const std::string& url, const Json& body);
  Result<Json> get_json(const std::string& url);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Splits a text/event-stream into its events' data (WHATWG "server-sent events"; other fields are skipped). The pieces
// may be cut anywhere.
class SseParser {
 public:
  void feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_event);

 private:
  std::string line_, data_;
  bool has_data_ = false, skip_line_feed_ = false;
};
std::string sse_event(std::string_view data);  // "data: ...\n\n", one data line per line of `data`

// Waits until GET url answers 200; throws kTimeout naming the url and what it last said.
void wait_until_healthy(const std::string& url, Deadline deadline);

// A role's counters and gauges in Prometheus text (exposition format 0.0.4), for /metrics. A family is declared once,
// with its help; one whose name ends in "_total" is a counter, one that was set from a histogram a histogram, every
// other a gauge. A name carries its labels: `requests_total{path="/x"}`.
class Metrics {
 public:
  // `help`: family -> one line of text. In the text every name is prefixed by "tritonforge_<role>_".
  Metrics(std::string_view role, std::map<std::string, std::string> help);
  ~Metrics();
  void add(const std::string& name, double amount = 1);
  void set(const std::string& name, double value);
  void set(const std::string& name, const SecondsHistogram& histogram);  // without labels
  // The family's series, and no others: what is not among them is gone.
  void set_all(const std::string& family, std::map<std::string, double> series);
  double get(const std::string& name) const;  // 0 where it was never set
  std::string text() const;
  Response reply() const;  // text(), with the format's content type

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::net
