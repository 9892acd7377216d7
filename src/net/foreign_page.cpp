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

// The site of the page that asks, where it is not the server's own; nullopt: no page's, or one of the server's.
std::optional<std::string> foreign_site(const Request& request, const std::string& asked) {
  if (const auto origin = request.headers.find("origin"); origin != request.headers.end())
    return is_page_of(origin->second, asked) ? std::nullopt : std::optional(origin->second);
  const auto site = request.headers.find("sec-fetch-site");
  const bool own = site == request.headers.end() || site->second == "same-origin" || site->second == "none";
  return own ? std::nullopt : std::optional(site->second);
}

}  // namespace

std::optional<std::string> foreign_page(const Request& request, bool reads) {
  const auto host = request.headers.find("host");
  const std::string asked = host == request.headers.end() ? "" : host->second;
  if (host != request.headers.end() && !names_loopback(asked))
    return fmt::format(
        "'{}' is not this server: without a key it answers to 127.0.0.1 and localhost alone (--api-key-file lets it "
        "answer to any name)",
        asked);
  const auto site = reads ? std::nullopt : foreign_site(request, asked);
  if (!site) return std::nullopt;
  return fmt::format(
      "{} {} from a page of '{}': without a key only this server's own pages, and clients that are no browser, "
      "change anything here",
      request.method, request.path, *site);
}

}  // namespace tritonforge::net
