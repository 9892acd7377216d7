// libs: tf_net
// A message parsed whole, cut once at any place, and byte by byte must come to the same: the same head and body, or
// none.
#include "net/message_parser.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace tritonforge::net;

namespace {

// What a message came to; empty: it is not whole, or no message.
template <typename Parser, typename Told>
std::string come_to(Parser& parser, const Told& told, std::string_view text, size_t first, size_t step) {
  std::string input;
  error_code error;
  size_t next = first;
  while (!parser.is_done() && !text.empty()) {
    input += text.substr(0, next);
    text.remove_prefix(std::min(next, text.size()));
    next = step;
    while (!input.empty() && !parser.is_done()) {
      const size_t used = parser.put(asio::buffer(input), error);
      input.erase(0, used);
      if (error && error != http::error::need_more) return "";
      if (used == 0) break;
    }
  }
  return parser.is_done() ? told() : "";
}

void append(std::string& out, const Headers& headers) {
  for (const auto& [name, value] : headers) out += name + "=" + value + ";";
}

std::string request_of(std::string_view text, size_t first, size_t step) {
  Request request;
  RequestParser parser(request, 4096);
  const auto told = [&] {
    std::string out = request.method + " " + request.target + ";";
    append(out, request.headers);
    return out + request.body;
  };
  return come_to(parser, told, text, first, step);
}

std::string reply_of(std::string_view text, size_t first, size_t step) {
  std::string head, body;
  const ReplyParser::OnHead on_head = [&](int status, Headers headers) {
    head = std::to_string(status) + ";";
    append(head, headers);
  };
  const ReplyParser::OnBody on_body = [&](std::string_view bytes) {
    body += bytes;
    return true;
  };
  ReplyParser parser(on_head, on_body, std::nullopt, false);
  return come_to(parser, [&] { return "reply " + head + body; }, text, first, step);
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.empty()) return 0;
  const size_t cut = 1 + (size * 2654435761u) % size;
  for (const auto& parse : {request_of, reply_of}) {
    const std::string whole = parse(text, size, size);
    if (parse(text, cut, size) != whole || parse(text, 1, 1) != whole) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      "POST /echo/a%20b?x=1 HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n\r\nabcGET / "
      "HTTP/1.0\r\n\r\n",
      "PUT /any HTTP/1.1\r\nTransfer-Encoding: chunked\r\nA: b\r\n c\r\n\r\n3;q=1\r\nabc\r\n0\r\nT: u\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
      "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"};
}
