// libs: tf_net
// Heads and requests of net/bulk_wire.h: any bytes are either an answer to what was asked, whose bytes lie within the
// file, or one Error.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/bulk_wire.h"

using namespace tritonforge::net;

// The head, the request that it answers, and the size of the file as far as it is known.
int fuzz_one(const uint8_t* data, size_t size) {
  std::array<std::byte, kBulkHead + kBulkRequest + 8> bytes{};
  if (size > 0) std::memcpy(bytes.data(), data, std::min(size, bytes.size()));
  const std::span<const std::byte, bytes.size()> all(bytes);
  const BulkRequest asked = bulk_request(all.subspan<kBulkHead, kBulkRequest>());
  if (bulk_request(to_bytes(asked)).piece != asked.piece) return 1;
  uint64_t total = 0;
  std::memcpy(&total, bytes.data() + kBulkHead + kBulkRequest, 8);
  try {
    const BulkHead head = bulk_head(all.subspan<0, kBulkHead>());
    const uint64_t behind = bytes_behind(head, asked, total);
    if (behind > kBulkPiece) return 1;
    if (behind > 0 && (asked.piece >= bulk_pieces(head.total) || behind > head.total - asked.piece * kBulkPiece))
      return 1;
    if (behind > 0 && total != 0 && head.total != total) return 1;
  } catch (const tritonforge::Error&) {}
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const uint64_t piece : {uint64_t{0}, uint64_t{2}, kNoPiece}) {
    const uint64_t total = 2 * kBulkPiece + 5;
    const auto head = to_bytes(BulkHead{BulkStatus::kHere, 7, piece, total, 1});
    const auto request = to_bytes(BulkRequest{7, piece});
    std::string text(reinterpret_cast<const char*>(head.data()), head.size());
    text.append(reinterpret_cast<const char*>(request.data()), request.size());
    text.append(reinterpret_cast<const char*>(&total), 8);
    seeds.push_back(text);
  }
  return seeds;
}
