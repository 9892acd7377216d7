#include "net/bulk_wire.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <bit>
#include <cstring>

#include "base/error.h"

namespace tritonforge::net {
namespace {

static_assert(std::endian::native == std::endian::little);

template <size_t kWords>
std::array<std::byte, 8 * kWords> pack(const std::array<uint64_t, kWords>& words) {
  return std::bit_cast<std::array<std::byte, 8 * kWords>>(words);
}

template <size_t kBytes>
std::array<uint64_t, kBytes / 8> unpack(std::span<const std::byte, kBytes> bytes) {
  std::array<uint64_t, kBytes / 8> words;
  std::memcpy(words.data(), bytes.data(), kBytes);
  return words;
}

}  // namespace

std::array<std::byte, kBulkRequest> to_bytes(const BulkRequest& request) {
  return pack<2>({request.version, request.piece});
}

BulkRequest bulk_request(std::span<const std::byte, kBulkRequest> bytes) {
  const auto [version, piece] = unpack(bytes);
  return {version, piece};
}

std::array<std::byte, kBulkHead> to_bytes(const BulkHead& head) {
  return pack<5>({static_cast<uint64_t>(head.status), head.version, head.piece, head.total, head.checksum});
}

BulkHead bulk_head(std::span<const std::byte, kBulkHead> bytes) {
  const auto [status, version, piece, total, sum] = unpack(bytes);
  if (status > static_cast<uint64_t>(BulkStatus::kNoSuchPiece))
    fail(ErrorKind::kCorrupt, "a head of status {}, which there is not", status);
  return {static_cast<BulkStatus>(status), version, piece, total, sum};
}

uint64_t bulk_pieces(uint64_t total) { return total / kBulkPiece + (total % kBulkPiece != 0); }

uint64_t bulk_piece_bytes(uint64_t total, uint64_t piece) {
  if (piece >= bulk_pieces(total)) return 0;
  return std::min(kBulkPiece, total - piece * kBulkPiece);
}

uint64_t bytes_behind(const BulkHead& head, const BulkRequest& asked, uint64_t total) {
  if (head.piece != asked.piece)
    fail(ErrorKind::kCorrupt, "piece {} was answered where {} was asked for", head.piece, asked.piece);
  if (head.status == BulkStatus::kNotYet) return 0;
  if (head.status == BulkStatus::kReplaced)
    fail(ErrorKind::kNotFound, "version {} is no longer there, {} is", asked.version, head.version);
  if (head.status == BulkStatus::kNoSuchPiece) fail(ErrorKind::kCorrupt, "there is no piece {}", asked.piece);
  if (head.version != asked.version)
    fail(ErrorKind::kCorrupt, "version {} was answered where {} was asked for", head.version, asked.version);
  if (total != 0 && head.total != total)
    fail(ErrorKind::kCorrupt, "version {} has {} bytes now, it had {}", head.version, head.total, total);
  return asked.piece == kNoPiece ? 0 : bulk_piece_bytes(head.total, asked.piece);
}

std::string bulk_mac(std::string_view key, std::string_view role, std::string_view server_nonce,
                     std::string_view client_nonce) {
  std::string text(role);
  text.append(server_nonce).append(client_nonce);
  std::string mac(kBulkMac, '\0');
  unsigned size = kBulkMac;
  const auto* made = ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                            reinterpret_cast<unsigned char*>(mac.data()), &size);
  TF_CHECK(made != nullptr && size == kBulkMac, "OpenSSL makes no HMAC-SHA256");
  return mac;
}

std::string bulk_nonce() {
  std::string nonce(kBulkNonce, '\0');
  TF_CHECK(::RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), kBulkNonce) == 1,
           "OpenSSL has no random bytes");
  return nonce;
}

}  // namespace tritonforge::net
