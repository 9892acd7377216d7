#include "net/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace tritonforge::net {
namespace {

constexpr unsigned char kHttp11[] = "\x08http/1.1";  // ALPN: a length and a name
constexpr size_t kReadBuffer = 64 << 10;

std::string reason_of(unsigned long code) {
  const char* reason = ERR_reason_error_string(code);
  return reason ? reason : fmt::format("error {:x}", code);
}

std::string text_of(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  ASN1_TIME_print(out.get(), time);
  char text[64];
  const int size = BIO_read(out.get(), text, sizeof text);
  return {text, static_cast<size_t>(std::max(0, size))};
}

// The names and addresses that a certificate is for.
std::string names_of(X509* certificate) {
  std::vector<std::string> names;
  auto* list = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const ASN1_STRING* value = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const std::string bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                            static_cast<size_t>(ASN1_STRING_length(value)));
    if (name->type == GEN_DNS) {
      names.push_back(bytes);
    } else if (bytes.size() == 4) {
      asio::ip::address_v4::bytes_type four;
      std::memcpy(four.data(), bytes.data(), 4);
      names.push_back(asio::ip::address_v4(four).to_string());
    } else if (bytes.size() == 16) {
      asio::ip::address_v6::bytes_type sixteen;
      std::memcpy(sixteen.data(), bytes.data(), 16);
      names.push_back(asio::ip::address_v6(sixteen).to_string());
    }
  }
  GENERAL_NAMES_free(list);
  if (names.empty()) return "no host";
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  for (char& c : text) {  // a stranger's words, in one of our lines
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  }
  return text.substr(0, 300);
}

[[noreturn]] void refuse_file(const fs::path& file, const std::string& what) {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  fail(ErrorKind::kUsage, "{}: {} ({})", file.string(), what, reason_of(code));
}

void require_file(const fs::path& file) {
  if (!fs::exists(file)) fail(ErrorKind::kNotFound, "{}: no such file", file.string());
}

std::string path_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

// The protocol that both sides know, where the client names any.
int choose_http11(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                  unsigned int offered_size, void*) {
  unsigned char* found = nullptr;
  const int result = SSL_select_next_proto(&found, size, kHttp11, sizeof kHttp11 - 1, offered, offered_size);
  *chosen = found;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

TlsFiles TlsFiles::or_environment() const {
  TlsFiles all = *this;
  const auto fill = [](fs::path& file, const char* variable) {
    if (file.empty()) file = path_in(variable);
  };
  fill(all.cert, kTlsCertVariable);
  fill(all.key, kTlsKeyVariable);
  if (all.cert.empty() != all.key.empty()) {
    const bool lacks_key = all.key.empty();
    fail(ErrorKind::kUsage, "TLS: a certificate and its private key go together: name {}",
         lacks_key ? "--tls-key, or TRITONFORGE_TLS_KEY" : "--tls-cert, or TRITONFORGE_TLS_CERT");
  }
  if (!ca.empty() && all.cert.empty())
    fail(ErrorKind::kUsage, "--tls-ca {}: a server without --tls-cert and --tls-key speaks no TLS", ca.string());
  fill(all.ca, kTlsCaVariable);
  return all;
}

namespace {
std::mutex process_mutex;  // the next two
std::optional<TlsFiles> process_files;
TlsContextPtr process_context;
}  // namespace

void use_tls(const TlsFiles& files) {
  const std::lock_guard lock(process_mutex);
  process_files = files;
  process_context.reset();
}

TlsFiles tls_files_of_this_process() {
  const std::lock_guard lock(process_mutex);
  return process_files ? *process_files : TlsFiles{}.or_environment();
}

TlsContextPtr tls_of_this_process() {
  const TlsFiles files = tls_files_of_this_process();
  const std::lock_guard lock(process_mutex);
  if (!process_context) process_context = std::make_shared<const TlsContext>(files, TlsContext::Side::kClient);
  return process_context;
}

TlsContext::TlsContext(TlsFiles files, Side side) : files_(std::move(files)), side_(side) {
  const bool serves = side == Side::kServer;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> made(
      SSL_CTX_new(serves ? TLS_server_method() : TLS_client_method()), SSL_CTX_free);
  SSL_CTX* context = made.get();
  TF_CHECK(context != nullptr, "OpenSSL has no context: {}", reason_of(ERR_get_error()));
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");  // of 1.2; those of 1.3 are all modern
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // Connections are kept, so none is resumed.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBuffer);
  // A passphrase would be asked for on the terminal.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });

  if (!files_.cert.empty()) {
    require_file(files_.cert);
    require_file(files_.key);
    if (SSL_CTX_use_certificate_chain_file(context, files_.cert.c_str()) != 1)
      refuse_file(files_.cert, "no certificate in PEM is in it");
    if (SSL_CTX_use_PrivateKey_file(context, files_.key.c_str(), SSL_FILETYPE_PEM) != 1)
      refuse_file(files_.key, "no private key in PEM, without a passphrase, that fits " + files_.cert.string());
    // Known to its peers alone otherwise, of which each says so somewhere else.
    const ASN1_TIME* end = X509_get0_notAfter(SSL_CTX_get0_certificate(context));
    if (X509_cmp_current_time(end) < 0)
      log::warn("{} has expired ({}): whoever is shown it refuses it", files_.cert.string(), text_of(end));
  }
  if (!files_.ca.empty()) {
    require_file(files_.ca);
    if (SSL_CTX_load_verify_locations(context, files_.ca.c_str(), nullptr) != 1)
      refuse_file(files_.ca, "no certificate in PEM is in it");
  }
  if (serves) {
    SSL_CTX_set_alpn_select_cb(context, choose_http11, nullptr);
    if (!files_.ca.empty()) {
      SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(files_.ca.c_str()));
      SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, &TlsSession::on_verified);
    }
  } else {
    SSL_CTX_set_alpn_protos(context, kHttp11, sizeof kHttp11 - 1);
    if (files_.ca.empty()) SSL_CTX_set_default_verify_paths(context);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, &TlsSession::on_verified);
  }
  ERR_clear_error();
  SSL_CTX_up_ref(context);
  context_ = context;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

// Like OpenSSL's own over a socket, which a peer that left ends with SIGPIPE.
struct SocketBio {
  static TlsSession& session_of(BIO* bio) { return *static_cast<TlsSession*>(BIO_get_data(bio)); }

  static int moved(BIO* bio, ssize_t size, int retry_flags) {
    BIO_clear_retry_flags(bio);
    if (size >= 0) return static_cast<int>(size);
    if (errno == EAGAIN || errno == EWOULDBLOCK) BIO_set_flags(bio, retry_flags | BIO_FLAGS_SHOULD_RETRY);
    else session_of(bio).errno_ = errno;
    return -1;
  }
  static int write(BIO* bio, const char* bytes, int size) {
    ssize_t sent;
    do sent = ::send(session_of(bio).fd_, bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return moved(bio, sent, BIO_FLAGS_WRITE);
  }
  static int read(BIO* bio, char* bytes, int size) {
    ssize_t got;
    do got = ::recv(session_of(bio).fd_, bytes, static_cast<size_t>(size), 0);
    while (got < 0 && errno == EINTR);
    if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return moved(bio, got, BIO_FLAGS_READ);
  }
  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
  }
  static BIO* over(TlsSession* session) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
      BIO_meth_set_write(made, &SocketBio::write);
      BIO_meth_set_read(made, &SocketBio::read);
      BIO_meth_set_ctrl(made, &SocketBio::control);
      return made;
    }();
    BIO* bio = BIO_new(method);
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    return bio;
  }
};

TlsSession::TlsSession(TlsContextPtr context, int fd, const std::string& host)
    : context_(std::move(context)), fd_(fd), host_(host), ssl_(SSL_new(context_->context_)) {
  TF_CHECK(ssl_ != nullptr, "OpenSSL has no session: {}", reason_of(ERR_get_error()));
  SSL_set_app_data(ssl_, this);
  BIO* bio = SocketBio::over(this);
  SSL_set_bio(ssl_, bio, bio);
  if (context_->side_ == TlsContext::Side::kServer) {
    SSL_set_accept_state(ssl_);
    return;
  }
  SSL_set_connect_state(ssl_);
  error_code not_literal;
  asio::ip::make_address(host_, not_literal);
  if (!not_literal) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host_.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl_, host_.c_str());
    SSL_set_hostflags(ssl_, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    TF_CHECK(SSL_set1_host(ssl_, host_.c_str()) == 1, "OpenSSL refuses the host name '{}'", host_);
  }
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

TlsSession::Wait TlsSession::handshake(error_code& error) {
  ERR_clear_error();
  return outcome(SSL_do_handshake(ssl_), error);
}

TlsSession::Wait TlsSession::read(asio::mutable_buffer to, size_t& size, error_code& error) {
  if (held_) {
    error = *held_;
    return Wait::kNone;
  }
  Wait wait = Wait::kNone;
  while (wait == Wait::kNone && !error && size < to.size()) {
    size_t got = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_, static_cast<char*>(to.data()) + size, to.size() - size, &got);
    size += got;
    wait = outcome(result, error);
  }
  if (size == 0) return wait;
  if (error) held_ = std::exchange(error, {});
  return Wait::kNone;
}

TlsSession::Wait TlsSession::write(asio::const_buffer from, size_t& size, error_code& error) {
  Wait wait = Wait::kNone;
  while (wait == Wait::kNone && !error && size < from.size()) {
    size_t put = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_, static_cast<const char*>(from.data()) + size, from.size() - size, &put);
    size += put;
    wait = outcome(result, error);
  }
  return size > 0 ? Wait::kNone : wait;
}

void TlsSession::say_end() {
  ERR_clear_error();
  if (SSL_is_init_finished(ssl_)) SSL_shutdown(ssl_);
  ERR_clear_error();
}

bool TlsSession::has_unread() const { return held_ || SSL_has_pending(ssl_) != 0; }

TlsSession::Wait TlsSession::outcome(int result, error_code& error) {
  if (result == 1) return Wait::kNone;
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ: return Wait::kRead;
    case SSL_ERROR_WANT_WRITE: return Wait::kWrite;
    case SSL_ERROR_ZERO_RETURN: error = asio::error::eof; return Wait::kNone;
    case SSL_ERROR_SYSCALL: {
      error = http::error::partial_message;
      if (errno_ != 0) error = error_code(errno_, boost::system::system_category());
      return Wait::kNone;
    }
    default: break;
  }
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    error = http::error::partial_message;
  } else {
    const std::optional<std::string> explained = explain(code);
    is_lasting_ = explained.has_value();
    failure_ = explained.value_or("TLS failed: " + reason_of(code));
    error = error_code(EPROTO, boost::system::system_category());
  }
  return Wait::kNone;
}

// OpenSSL's own verdict, and what of the certificate explains it.
int TlsSession::on_verified(int good, X509_STORE_CTX* store) {
  if (good) return good;
  const auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& session = *static_cast<TlsSession*>(SSL_get_app_data(ssl));
  session.verdict_ = X509_STORE_CTX_get_error(store);
  if (X509* shown = X509_STORE_CTX_get0_cert(store)) session.names_ = names_of(shown);
  if (X509* at_fault = X509_STORE_CTX_get_current_cert(store)) session.expires_ = text_of(X509_get0_notAfter(at_fault));
  return good;
}

std::string TlsSession::explain_certificate() const {
  const bool serves = context_->side_ == TlsContext::Side::kServer;
  const char* whose = serves ? "the client's certificate" : "the server's certificate";
  const std::string reason = X509_verify_cert_error_string(verdict_);
  switch (verdict_) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("{} has expired ({}): give it a new one with --tls-cert", whose, expires_);
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("{} is for {}, not for {}: name the server so in the URL, or give it a certificate for {}",
                         whose, names_, host_, host_);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return fmt::format(
          "{} is not signed by an authority of {} ({}): name the one that signed it with --tls-ca or "
          "TRITONFORGE_TLS_CA",
          whose, context_->files_.ca.empty() ? "this system" : context_->files_.ca.string(), reason);
    default: return fmt::format("{} is refused: {}", whose, reason);
  }
}

std::optional<std::string> TlsSession::explain(unsigned long code) const {
  const bool serves = context_->side_ == TlsContext::Side::kServer;
  const std::string reason = reason_of(code);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return std::nullopt;
  switch (ERR_GET_REASON(code)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED: return explain_certificate();
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return "the client shows no certificate, and --tls-ca asks for one";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      if (serves || SSL_is_init_finished(ssl_)) break;
      return "the server speaks no TLS on this port: write http://, or start it with --tls-cert and --tls-key";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      if (serves || !context_->files_.cert.empty()) break;
      return fmt::format(
          "the server takes only clients with a certificate ({}): give this one --tls-cert and --tls-key, or "
          "TRITONFORGE_TLS_CERT and TRITONFORGE_TLS_KEY",
          reason);
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      if (serves) return fmt::format("the client refuses this server's certificate ({})", reason);
      return fmt::format("the server refuses the certificate {} ({}): its --tls-ca must have signed it",
                         context_->files_.cert.string(), reason);
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL: return "no TLS version in common: 1.2 and 1.3 are spoken here (" + reason + ")";
    default: break;
  }
  return std::nullopt;
}

}  // namespace tritonforge::net
