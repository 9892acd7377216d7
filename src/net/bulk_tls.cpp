#include <cstdlib>

#include "base/error.h"
#include "net/bulk.h"
#include "net/tls_session.h"

namespace tritonforge::net {

std::optional<TlsFiles> named_bulk_tls() {
  const auto path = [](const char* variable) {
    const char* value = std::getenv(variable);
    return fs::path(value != nullptr ? value : "");
  };
  const TlsFiles named{path(kBulkCert), path(kBulkCertKey), path(kBulkCa)};
  const int given = !named.cert.empty() + !named.key.empty() + !named.ca.empty();
  if (given == 3) return named;
  if (given > 0) fail(ErrorKind::kUsage, "{}, {} and {} go together", kBulkCert, kBulkCertKey, kBulkCa);
  return std::nullopt;
}

std::optional<TlsFiles> bulk_tls() {
  if (const auto named = named_bulk_tls()) return named;
  const TlsFiles own = tls_files_of_this_process();
  return own.cert.empty() ? std::nullopt : std::optional(own);
}

}  // namespace tritonforge::net
