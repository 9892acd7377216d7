#pragma once
// TLS over a connected socket that does not block, by OpenSSL. There is nothing between it and the descriptor, so an
// idle session goes from one io_context to another with it.
#include <memory>
#include <optional>
#include <string>

#include "net/asio.h"
#include "net/tls.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX, SSL and X509_STORE_CTX
struct ssl_st;
struct x509_store_ctx_st;

namespace tritonforge::net {

// The files, read and checked: kNotFound, or kUsage naming the file and what is wrong with it.
class TlsContext {
 public:
  enum class Side { kServer, kClient };
  TlsContext(TlsFiles files, Side side);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  const TlsFiles files_;
  const Side side_;
  ssl_ctx_st* context_ = nullptr;
};
using TlsContextPtr = std::shared_ptr<const TlsContext>;

TlsContextPtr tls_of_this_process();  // its clients', made when it is first asked for; see use_tls()
TlsFiles tls_files_of_this_process();

class TlsSession {
 public:
  // `host`: a client's: the name or address that the server's certificate must be for.
  TlsSession(TlsContextPtr context, int fd, const std::string& host = "");
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;

  // What the socket must be ready for before the same call, with the same bytes, gets further. kNone: it is done, or
  // `error` says what failed: eof is the peer's own word that nothing follows, http::error::partial_message a
  // connection that ended without it, EPROTO what failure() explains.
  enum class Wait { kNone, kRead, kWrite };
  Wait handshake(error_code& error);
  Wait read(asio::mutable_buffer to, size_t& size, error_code& error);
  Wait write(asio::const_buffer from, size_t& size, error_code& error);
  void say_end();                                          // as far as the socket takes it now
  bool has_unread() const;                                 // bytes that came and were not read
  const std::string& failure() const { return failure_; }  // one line: what, and what to do; empty: none
  bool is_lasting() const { return is_lasting_; }          // somebody must mend it; a new connection does not

 private:
  friend class TlsContext;
  friend struct SocketBio;
  Wait outcome(int result, error_code& error);
  std::optional<std::string> explain(unsigned long code) const;  // nullopt: nothing that somebody could mend
  std::string explain_certificate() const;
  static int on_verified(int good, x509_store_ctx_st* store);

  const TlsContextPtr context_;
  const int fd_;
  const std::string host_;
  ssl_st* ssl_ = nullptr;
  int errno_ = 0;                // of the socket's last failure
  int verdict_ = 0;              // on the peer's certificate: X509_V_ERR_...
  std::string names_, expires_;  // of the peer's certificate, where it was refused
  std::string failure_;
  bool is_lasting_ = false;
  std::optional<error_code> held_;  // a failure behind bytes that were read
};

}  // namespace tritonforge::net
