#pragma once
// URLs as texts.
#include <string>

namespace tritonforge {

struct Url {
  std::string host;  // without brackets
  int port = 80;     // 443 where it is https
  bool tls = false;
  std::string target;     // path and query, at least "/"
  std::string authority;  // host:port as the Host header has it
};
// Throws kUnsupported for any scheme but http and https, kUsage for anything that is not a URL.
Url parse_url(const std::string& url);

// What options that name a server take (base/options.h, in_form); both throw as parse_url does.
// http(s)://HOST[:PORT][/PATH] behind which a path is written: without a slash at its end, a query or a fragment.
std::string base_url(const std::string& text);
// The same without a path; HOST:PORT stands for http://HOST:PORT.
std::string server_url(const std::string& text);

}  // namespace tritonforge
