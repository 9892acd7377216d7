#include "net/wire.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <iterator>
#include <random>

#include "base/rng.h"
#include "base/text.h"

namespace tritonforge::net {
namespace {

bool is_framing(std::string_view name) {
  static constexpr std::string_view kNames[] = {"content-length", "transfer-encoding", "connection", "keep-alive",
                                                "content-type",   "x-request-id",      "upgrade",    "trailer"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// CR, LF and NUL become spaces.
void append_clean(std::string& out, std::string_view text) {
  const size_t start = out.size();
  out += text;
  for (const char bad : {'\r', '\n', '\0'}) {
    if (text.find(bad) != std::string_view::npos)
      std::replace(out.begin() + static_cast<std::ptrdiff_t>(start), out.end(), bad, ' ');
  }
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  append_clean(out, name);
  out += ": ";
  append_clean(out, value);
  out += "\r\n";
}

}  // namespace

std::map<std::string, std::string> parse_query(std::string_view query) {
  std::map<std::string, std::string> result;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    result[percent_decode(pair.substr(0, equals), true)] = equals == std::string_view::npos
                                                               ? ""
                                                               : percent_decode(pair.substr(equals + 1), true);
  }
  return result;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 413: return "Payload Too Large";
    case 422: return "Unprocessable Entity";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return status < 300 ? "OK" : "Error";
  }
}

std::string response_head(int status, const std::string& content_type, const Headers& extra, long long content_length,
                          const std::string& request_id, bool keep_alive, bool http_1_0) {
  std::string out;
  out.reserve(512);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  if (!content_type.empty()) append_header(out, "Content-Type", content_type);
  if (content_length >= 0) {
    if (status != 204 && status != 304) append_header(out, "Content-Length", std::to_string(content_length));
  } else if (!http_1_0) {
    append_header(out, "Transfer-Encoding", "chunked");
  }
  if (!request_id.empty()) append_header(out, "X-Request-Id", request_id);
  if (!keep_alive) append_header(out, "Connection", "close");
  else if (http_1_0) append_header(out, "Connection", "keep-alive");
  for (const auto& [name, value] : extra) {
    if (!is_framing(name)) append_header(out, name, value);
  }
  return out += "\r\n";
}

std::string request_head(const std::string& method, const Url& url, const Headers& headers, size_t content_length) {
  std::string out;
  out.reserve(1024);
  fmt::format_to(std::back_inserter(out), "{} {} HTTP/1.1\r\n", method, url.target);
  append_header(out, "Host", url.authority);
  if (content_length > 0 || (method != "GET" && method != "HEAD")) {
    append_header(out, "Content-Length", std::to_string(content_length));
  }
  for (const auto& [name, value] : headers) {
    if (name == "host" || (is_framing(name) && name != "content-type" && name != "x-request-id")) continue;
    append_header(out, name, value);
  }
  return out += "\r\n";
}

std::string chunk_of(std::string_view bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

bool is_loopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return lowered(host) == "localhost";
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string fresh_id() {
  static const uint64_t start = (static_cast<uint64_t>(std::random_device{}()) << 32) | std::random_device{}();
  static std::atomic<uint64_t> count{0};
  return fmt::format("{:016x}", Rng::derive(start, count.fetch_add(1, std::memory_order_relaxed)));
}

ErrorKind kind_of(std::string_view error_type, int status) {
  for (const auto kind :
       {ErrorKind::kUsage, ErrorKind::kNotFound, ErrorKind::kCorrupt, ErrorKind::kUnsupported, ErrorKind::kConflict,
        ErrorKind::kBusy, ErrorKind::kUnavailable, ErrorKind::kTimeout, ErrorKind::kMachine, ErrorKind::kInternal}) {
    if (name_of(kind) == error_type) return kind;
  }
  switch (status) {
    case 404: return ErrorKind::kNotFound;
    case 408:
    case 504: return ErrorKind::kTimeout;
    case 409: return ErrorKind::kConflict;
    case 422: return ErrorKind::kCorrupt;
    case 429: return ErrorKind::kBusy;
    case 502:
    case 503: return ErrorKind::kUnavailable;
    default: return status >= 500 ? ErrorKind::kInternal : ErrorKind::kUsage;
  }
}

double retry_after_of(const Response& response) {
  const auto found = response.headers.find("retry-after");
  if (found == response.headers.end()) return 0;
  int seconds = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && end == text.data() + text.size() && seconds > 0 ? seconds : 0;
}

namespace {

// What is no UTF-8, and what a cut left of a character, becomes U+FFFD: it goes into JSON.
std::string as_text(std::string_view bytes) {
  return Json::parse(Json(std::string(bytes)).dump(-1, ' ', false, Json::error_handler_t::replace));
}

// The first `most` bytes, every end of a line and run of blanks as one blank.
std::string one_line(std::string_view text, size_t most) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank) line += c;
    else if (!line.empty() && line.back() != ' ') line += ' ';
    if (line.size() >= most) break;
  }
  return as_text(trimmed(line));
}

std::string title_of(std::string_view page) {
  constexpr std::string_view kOpen = "<title>";
  const std::string low = lowered(page);
  const size_t open = low.find(kOpen);
  const size_t close = open == std::string::npos ? open : low.find("</title>", open);
  return close == std::string::npos ? "" : one_line(page.substr(open + kOpen.size(), close - open - kOpen.size()), 100);
}

bool is_html(const Response& response) {
  const std::string begin = lowered(trimmed(std::string_view(response.body).substr(0, 100)));
  return response.content_type.starts_with("text/html") || begin.starts_with("<!doctype html") ||
         begin.starts_with("<html");
}

}  // namespace

std::string said_by(const Response& response) {
  const Json body = parse_json_or_discard(response.body);
  if (body.is_object()) {
    const Json error = body.value("error", Json());
    if (error.is_string()) return one_line(error.get<std::string>(), SIZE_MAX);
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return one_line(error["message"].get<std::string>(), SIZE_MAX);
    if (body.contains("detail")) return one_line(body["detail"].dump(), 300);
  }
  if (!is_html(response)) return one_line(response.body, 300);
  return fmt::format("a page in HTML, '{}': is this the address of another server?", title_of(response.body));
}

Error error_of(const Response& response, const std::string& what) {
  std::string type;
  const Json body = parse_json_or_discard(response.body);
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    const Json& error = body["error"];
    if (error.contains("type") && error["type"].is_string()) type = error["type"].get<std::string>();
  }
  return Error(kind_of(type, response.status), fmt::format("{}: {} {}", what, response.status, said_by(response)))
      .with_retry_after(retry_after_of(response));
}

}  // namespace tritonforge::net
