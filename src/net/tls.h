#pragma once
// TLS, 1.2 or 1.3, for servers and clients alike. A process has one identity, its certificate, and one authority that
// it believes: the same three files are its servers' and its clients'.
#include "base/filesystem.h"

namespace tritonforge::net {

inline constexpr char kTlsCertVariable[] = "TRITONFORGE_TLS_CERT", kTlsKeyVariable[] = "TRITONFORGE_TLS_KEY",
                      kTlsCaVariable[] = "TRITONFORGE_TLS_CA";

// Names of PEM files.
struct TlsFiles {
  fs::path cert, key;  // the chain, this process's own certificate first, and its private key without a passphrase
  // Who must have signed what a peer shows. Of a server: it then takes only clients that show one. Empty: a server
  // asks no client, and a client believes the system's authorities (OpenSSL's: SSL_CERT_FILE and SSL_CERT_DIR too).
  fs::path ca;

  template <typename V>
  void describe(V& v) {
    v("tls_cert", cert,
      "PEM file with the certificate chain of this server, which then speaks https alone; else TRITONFORGE_TLS_CERT");
    v("tls_key", key, "PEM file with its private key; else TRITONFORGE_TLS_KEY");
    v("tls_ca", ca,
      "PEM file with the authority that clients' and other servers' certificates must be signed by; else "
      "TRITONFORGE_TLS_CA");
  }
  // With the environment's names where a file is not named. Throws kUsage where a key or an authority is named and no
  // certificate, or a certificate and no key.
  TlsFiles or_environment() const;
};

// Who the clients of this process are from here on, those that were not given an identity of their own. Without it they
// are whom the environment says.
void use_tls(const TlsFiles& files);

}  // namespace tritonforge::net
