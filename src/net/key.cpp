#include "net/key.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/error.h"
#include "base/text.h"
#include "net/base64.h"
#include "net/tls.h"
#include "net/wire.h"

namespace tritonforge::net {

std::string key_from(const fs::path& file, const char* variable) {
  if (file.empty()) {
    const char* key = std::getenv(variable);
    return key ? key : "";
  }
  const std::string content = read_file(file), key(trimmed(content));
  if (key.empty() || std::any_of(key.begin(), key.end(), [](unsigned char c) { return c <= ' ' || c >= 127; }))
    fail(ErrorKind::kUsage, "{}: no key is in it: one line of printable characters without spaces", file.string());
  return key;
}

std::map<std::string, std::string> own_server_environment() {
  return {{kKeyVariable, ""}, {kPeerKeyVariable, ""}, {kTlsCertVariable, ""}, {kTlsKeyVariable, ""}};
}

bool carries_key(std::string_view authorization, const std::string& key, bool reads) {
  const size_t space = std::min(authorization.find(' '), authorization.size());
  const std::string scheme = lowered(authorization.substr(0, space));
  const std::string_view given = authorization.substr(std::min(space + 1, authorization.size()));
  if (scheme == "bearer") return equal_in_constant_time(given, key);
  if (scheme != "basic" || !reads) return false;
  const std::string signed_in = from_base64(given).value_or("");
  const size_t colon = signed_in.find(':');
  return colon != std::string::npos && equal_in_constant_time(std::string_view(signed_in).substr(colon + 1), key);
}

std::string random_key() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace tritonforge::net
