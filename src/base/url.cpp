#include "base/url.h"

#include <charconv>

#include "base/error.h"

namespace tritonforge {

Url parse_url(const std::string& url) {
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string::npos)
    fail(ErrorKind::kUsage, "'{}' is not a URL: expected http://HOST:PORT/... or https://", url);
  const std::string scheme = url.substr(0, scheme_end);
  if (scheme != "http" && scheme != "https")
    fail(ErrorKind::kUnsupported, "'{}': {}:// is not supported, only http:// and https://", url, scheme);
  Url result;
  result.tls = scheme == "https";
  if (result.tls) result.port = 443;
  const size_t start = scheme_end + 3;
  const size_t path = url.find_first_of("/?#", start);
  result.authority = url.substr(start, path == std::string::npos ? std::string::npos : path - start);
  result.target = path == std::string::npos ? "/" : url.substr(path, url.find('#', path) - path);
  if (result.target.empty() || result.target[0] != '/') result.target.insert(0, "/");
  for (unsigned char c : result.target) {
    if (c <= ' ' || c == 127) fail(ErrorKind::kUsage, "'{}': a URL holds no spaces or control characters", url);
  }
  std::string_view rest = result.authority;
  std::string_view port;
  if (!rest.empty() && rest[0] == '[') {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) fail(ErrorKind::kUsage, "'{}': '[' without ']'", url);
    result.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty() && rest[0] == ':') port = rest.substr(1);
    else if (!rest.empty()) fail(ErrorKind::kUsage, "'{}': expected ':PORT' after ']'", url);
  } else {
    const size_t colon = rest.find(':');
    result.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon + 1);
  }
  if (result.host.empty() || result.host.find_first_of("@ \t\r\n") != std::string::npos) {
    fail(ErrorKind::kUsage, "'{}': no valid host in the URL", url);
  }
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
    if (error != std::errc() || end != port.data() + port.size() || result.port < 1 || result.port > 65535) {
      fail(ErrorKind::kUsage, "'{}': '{}' is not a port", url, port);
    }
  }
  return result;
}

std::string base_url(const std::string& text) {
  const Url url = parse_url(text);
  if (text.find_first_of("?#") != std::string::npos)
    fail(ErrorKind::kUsage, "'{}': a base URL has no query and no fragment", text);
  std::string path = url.target;
  while (path.ends_with('/')) path.pop_back();
  return (url.tls ? "https://" : "http://") + url.authority + path;
}

std::string server_url(const std::string& text) {
  const bool has_scheme = text.find("://") != std::string::npos;
  // A word alone is a typing error more often than a host at port 80.
  if (!has_scheme && (text.find(':') == std::string::npos || text.ends_with(':')))
    fail(ErrorKind::kUsage, "'{}' is not a server's URL: expected http://HOST:PORT, https:// or HOST:PORT", text);
  const Url url = parse_url(has_scheme ? text : "http://" + text);
  if (url.target != "/") fail(ErrorKind::kUsage, "'{}': a server's URL has no path", text);
  return (url.tls ? "https://" : "http://") + url.authority;
}

}  // namespace tritonforge
