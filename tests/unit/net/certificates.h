#pragma once
// Certificates of a test's own authorities, as PEM files in its folder.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/filesystem.h"
#include "net/tls.h"

namespace tritonforge::net {

class Authority {
 public:
  Authority(const fs::path& folder, std::string name)
      : folder_(folder), name_(std::move(name)), key_(EVP_EC_gen("P-256"), EVP_PKEY_free) {
    own_ = make(name_, key_.get(), -3600, 3600, {NID_basic_constraints, "critical,CA:TRUE"});
    write(file(), own_.get());
  }
  fs::path file() const { return folder_ / (name_ + "-ca.pem"); }

  // A certificate for `names` ("DNS:localhost,IP:127.0.0.1") and its key; valid until `ends_s` from now.
  TlsFiles issue(const std::string& name, const std::string& names, long ends_s = 3600) const {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const auto certificate = make(name, key.get(), -7200, ends_s, {NID_subject_alt_name, names});
    const TlsFiles files{folder_ / (name + ".pem"), folder_ / (name + "-key.pem"), {}};
    write(files.cert, certificate.get());
    std::FILE* out = std::fopen(files.key.c_str(), "w");
    PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(out);
    return files;
  }

 private:
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  struct Extension {
    int id;
    std::string value;
  };

  Certificate make(const std::string& name, EVP_PKEY* key, long begins_s, long ends_s,
                   const Extension& extension) const {
    Certificate made(X509_new(), X509_free);
    X509_set_version(made.get(), X509_VERSION_3);
    static long serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), begins_s);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), ends_s);
    X509_set_pubkey(made.get(), key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made.get(), X509_get_subject_name(own_ ? own_.get() : made.get()));
    X509_EXTENSION* made_extension = X509V3_EXT_conf_nid(nullptr, nullptr, extension.id, extension.value.c_str());
    X509_add_ext(made.get(), made_extension, -1);
    X509_EXTENSION_free(made_extension);
    X509_sign(made.get(), key_.get(), EVP_sha256());
    return made;
  }
  static void write(const fs::path& file, X509* certificate) {
    std::FILE* out = std::fopen(file.c_str(), "w");
    PEM_write_X509(out, certificate);
    std::fclose(out);
  }

  const fs::path folder_;
  const std::string name_;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  Certificate own_{nullptr, X509_free};
};

}  // namespace tritonforge::net
