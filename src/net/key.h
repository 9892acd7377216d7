#pragma once
// Bearer keys come from files or from the environment, never from a command line: everybody on a machine can read
// those.
#include <map>
#include <string>
#include <string_view>

#include "base/filesystem.h"

namespace tritonforge::net {

// Where a server's own key is if no file is named, and where the one is that it sends to other servers.
inline constexpr char kKeyVariable[] = "TRITONFORGE_API_KEY", kPeerKeyVariable[] = "TRITONFORGE_PEER_API_KEY";

// The text of `file` without the white space around it, else the variable's; empty where neither is given. Throws
// kNotFound where there is no such file, kUsage where it holds no key.
std::string key_from(const fs::path& file, const char* variable);

// Whether a request's header `authorization` carries `key`: "Bearer KEY", or, of one that only reads, also
// "Basic base64(NAME:KEY)" with any name (RFC 7617). That is what a browser sends once its user has signed in, so that
// a page opens behind a key; a browser also sends it where another site's page makes it ask, so it changes nothing, not
// by a GET either (http.h, Effect).
bool carries_key(std::string_view authorization, const std::string& key, bool reads);

// 128 bits that nobody guesses, in hexadecimal.
std::string random_key();

// What the environment of a server is to say that its starter alone asks, on loopback: no key, and no certificate of
// those that are meant for servers that somebody starts by hand.
std::map<std::string, std::string> own_server_environment();

// Flags of a server that calls other servers.
struct PeerKey {
  fs::path peer_api_key_file;

  template <typename V>
  void describe(V& v) {
    v("peer_api_key_file", peer_api_key_file,
      "file with the bearer key that is sent to other servers; else TRITONFORGE_PEER_API_KEY of the environment, else "
      "the server's own");
  }
  // `own`: the server's, where no other is given: one key for a system.
  std::string read(const std::string& own) const {
    const std::string key = key_from(peer_api_key_file, kPeerKeyVariable);
    return key.empty() ? own : key;
  }
};

}  // namespace tritonforge::net
