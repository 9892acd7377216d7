#pragma once
// One large file at a time, to any number of other machines, in pieces over parallel connections, at the speed of the
// link: the kernel sends what lies in its page cache (sendfile), the receiver has each piece's checksum beside it.
// Who does not have the key is told nothing. Under TLS nothing else can be read or changed on the way either; the
// pieces are then copied once more to be encrypted. bulk_wire.h has the form.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/filesystem.h"
#include "net/tls.h"

namespace tritonforge::net {

struct BulkServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;               // 0: any
  std::string key;            // of both ends; any host but loopback needs one
  TlsFiles tls = {};          // with a certificate: TLS alone; with an authority: of clients that it signed alone
  double stall_s = 15;        // in which a receiver takes nothing of a piece that it asked for: it is hung up on
  double idle_s = 60;         // in which a receiver asks for nothing: likewise
  size_t connections = 4096;  // at most; further ones are closed
  int threads = 2;            // that send
};

// PEM files of who a process is here alone, in its environment: a run's trainers and engines, whose own servers speak
// plain HTTP on loopback.
inline constexpr const char *kBulkCert = "TRITONFORGE_WEIGHTS_TLS_CERT", *kBulkCertKey = "TRITONFORGE_WEIGHTS_TLS_KEY",
                            *kBulkCa = "TRITONFORGE_WEIGHTS_TLS_CA";
// Those; nullopt where none is there. Throws kUsage where some are and not all.
std::optional<TlsFiles> named_bulk_tls();
// As whom this process sends and fetches, under TLS and in no other way: those files, else its own certificate
// (net/tls.h); nullopt without either.
std::optional<TlsFiles> bulk_tls();

// Receivers are served beside each other: one that is slow, gone or silent costs the others nothing but its share of
// the link while it takes something.
class BulkServer {
 public:
  explicit BulkServer(BulkServerOptions options);  // throws kUnavailable, kUsage, and what TLS files throw
  ~BulkServer();
  BulkServer(const BulkServer&) = delete;
  BulkServer& operator=(const BulkServer&) = delete;
  int port() const;
  // From here on what is asked for of `version` is of this file, and other versions are not there. A file that is
  // unlinked stays until the next; its bytes may not change until then. Throws kNotFound, kCorrupt.
  void offer(uint64_t version, const fs::path& file);
  // Whoever asks for this version waits for offer().
  void announce(uint64_t version);
  size_t waiting() const;  // connections that do

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct BulkFetch {
  std::string host;
  int port = 0;
  std::string key;
  uint64_t version = 0;
  int streams = 4;
  double stall_s = 15;  // in which nothing comes over a connection: it is opened anew
  int attempts = 4;     // of one connection after another without a whole piece, until it is given up
  std::optional<TlsFiles> tls = std::nullopt;  // spoken as whom these say; without: none
};
// Fetches all of the file into the memory that `place` gives for its size; each piece is compared with its checksum. A
// connection that is cut is opened anew and goes on with the pieces that were not there; one that fails for good leaves
// its pieces to the others. Throws kNotFound where nobody answers or the version was replaced, kUsage where one end
// refuses the other's certificate or speaks no TLS, kUnavailable where the key is another and where connections were
// cut again and again, kConflict where the server does not know it, kCorrupt where a piece differs each time, kTimeout.
void bulk_fetch(const BulkFetch& what, const std::function<std::span<std::byte>(uint64_t total)>& place,
                Deadline deadline);

}  // namespace tritonforge::net
