#pragma once
// The bytes of bulk.h on a connection. No sockets. Numbers are little-endian.
//
//   server  "TFBULK1\n", a nonce of 16 bytes
//   client  a nonce of 16 bytes, HMAC-SHA256(key, "client" server's nonce, client's nonce)
//   server  HMAC-SHA256(key, "server" server's nonce, client's nonce)
// and from there on, any number of times and without waiting for the answers:
//   client  a request: version, piece                                     (2 x 8 bytes)
//   server  a head: status, version, piece, bytes of the file, checksum   (5 x 8 bytes), and the piece's bytes if kHere
// A piece is kBulkPiece bytes of the file, the last one what is left. The checksum is XXH3-64 of its bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tritonforge::net {

inline constexpr std::string_view kBulkHello = "TFBULK1\n";
inline constexpr uint64_t kBulkPiece = uint64_t{4} << 20;
inline constexpr uint64_t kNoPiece = ~uint64_t{0};  // asked for: the head alone
inline constexpr size_t kBulkNonce = 16, kBulkMac = 32, kBulkRequest = 16, kBulkHead = 40;

enum class BulkStatus : uint64_t {
  kHere = 0,
  kNotYet = 1,    // nothing of that version so far
  kReplaced = 2,  // `version` of the head is what is there now
  kNoSuchPiece = 3,
};

struct BulkRequest {
  uint64_t version = 0, piece = 0;
};
struct BulkHead {
  BulkStatus status = BulkStatus::kHere;
  uint64_t version = 0, piece = 0, total = 0, checksum = 0;
};

std::array<std::byte, kBulkRequest> to_bytes(const BulkRequest& request);
BulkRequest bulk_request(std::span<const std::byte, kBulkRequest> bytes);
std::array<std::byte, kBulkHead> to_bytes(const BulkHead& head);
BulkHead bulk_head(std::span<const std::byte, kBulkHead> bytes);  // throws kCorrupt for an unknown status

uint64_t bulk_pieces(uint64_t total);
uint64_t bulk_piece_bytes(uint64_t total, uint64_t piece);  // 0 where there is no such piece
// How many bytes follow a head that answers `asked`, of a file of `total` bytes (0: not known yet). Throws kCorrupt
// where it answers something else or names another size, kNotFound where the version was replaced.
uint64_t bytes_behind(const BulkHead& head, const BulkRequest& asked, uint64_t total);

// role: "client" or "server".
std::string bulk_mac(std::string_view key, std::string_view role, std::string_view server_nonce,
                     std::string_view client_nonce);
std::string bulk_nonce();

}  // namespace tritonforge::net
