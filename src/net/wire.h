#pragma once
// The text of HTTP/1.1: queries, message heads. No sockets.
#include <map>
#include <string>
#include <string_view>

#include "base/url.h"
#include "net/http.h"

namespace tritonforge::net {

std::map<std::string, std::string> parse_query(std::string_view query);

std::string_view reason_phrase(int status);
// Status line and headers up to and with the empty line. `extra` may not override framing headers; CR, LF and NUL in
// values become spaces. content_length < 0: chunked.
std::string response_head(int status, const std::string& content_type, const Headers& extra, long long content_length,
                          const std::string& request_id, bool keep_alive, bool http_1_0);
std::string request_head(const std::string& method, const Url& url, const Headers& headers, size_t content_length);
std::string chunk_of(std::string_view bytes);  // chunked framing of a non-empty piece

bool is_loopback(const std::string& host);  // an address in 127.0.0.0/8, ::1, or "localhost"
bool equal_in_constant_time(std::string_view a, std::string_view b);
std::string fresh_id();  // 16 hex digits
ErrorKind kind_of(std::string_view error_type, int status);
double retry_after_of(const Response& response);  // seconds; 0 without the header, or where it is no number of them
// What a reply says of itself, in one line: an error's message, a text's first words, the title of a page in HTML.
std::string said_by(const Response& response);
// The Error that a non-2xx reply stands for, with its Retry-After, prefixed by `what` ("POST http://...").
Error error_of(const Response& response, const std::string& what);

}  // namespace tritonforge::net
