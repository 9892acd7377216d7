#include "net/key.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/error.h"
#include "base/text.h"
#include "net/tls.h"

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

std::string random_key() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace tritonforge::net
