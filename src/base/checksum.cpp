#include "base/checksum.h"

#include <fmt/format.h>
#include <xxh3.h>

#include <memory>

#include "base/filesystem.h"

namespace tritonforge {
namespace {

std::string digits_of(const XXH128_hash_t& hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string checksum(const void* data, size_t size) { return digits_of(XXH3_128bits(data, size)); }

std::string checksum_of_file(const std::filesystem::path& file) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  read_pieces(file, [&](std::string_view piece) { XXH3_128bits_update(state.get(), piece.data(), piece.size()); });
  return digits_of(XXH3_128bits_digest(state.get()));
}

}  // namespace tritonforge
