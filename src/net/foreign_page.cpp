#include "net/foreign_page.h"

#include "base/text.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

bool names_loopback(const std::string& authority) {
  try {
    const Url url = parse_url("http://" + authority);
    return url.authority == authority && is_loopback(url.host);
  } catch (const Error&) {
    return false;
  }
}

// "http://127.0.0.1:8080" of "127.0.0.1:8080". The scheme says nothing more: a port speaks one.
bool is_page_of(std::string_view origin, std::string_view authority) {
  const size_t scheme_end = origin.find("://");
  return scheme_end != std::string_view::npos && lowered(origin.substr(scheme_end + 3)) == lowered(authority);
}

}  // namespace

std::optional<std::string> foreign_page(const Request& request) {
  const auto host = request.headers.find("host"), origin = request.headers.find("origin");
  const std::string asked = host == request.headers.end() ? "" : host->second;
  if (host != request.headers.end() && !names_loopback(asked))
    return fmt::format(
        "'{}' is not this server: without a key it answers to 127.0.0.1 and localhost alone (--api-key-file lets it "
        "answer to any name)",
        asked);
  const bool changes = request.method != "GET" && request.method != "HEAD";
  if (changes && origin != request.headers.end() && !is_page_of(origin->second, asked))
    return fmt::format(
        "{} {} from a page of '{}': without a key only this server's own pages, and clients that are no browser, "
        "change anything here",
        request.method, request.path, origin->second);
  return std::nullopt;
}

}  // namespace tritonforge::net
