#pragma once
// The parallel axes of a training job and the only place where their degrees are validated (design section 7).
//   tp  tensor parallel (with sequence parallel)   cp  context parallel   pp  pipeline parallel
//   dp  data parallel with sharded optimizer state ep  expert parallel
// world = tp * cp * dp * pp; ep divides dp * cp, among whose ranks, which otherwise have the same weights, it shares
// out experts.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/named_enum.h"
#include "base/options.h"

namespace tritonforge::parallel {

// How context-parallel ranks come to attention over tokens that they have parts of: each to all tokens of some heads,
// or keys and values of all heads past every rank (train/token_shards.h, train/ring.h).
enum class CpForm { kUlysses, kRing };
constexpr std::array<std::string_view, 2> names_of(CpForm) { return {"ulysses", "ring"}; }
inline constexpr const char* kCpFormText =
    "ulysses: between ranks of cp tokens become heads and heads tokens, of which there must be enough; ring: keys and "
    "values go round, for any number of heads";

struct ParallelDims {
  int64_t tp = 1, cp = 1, pp = 1, pp_chunks = 1, dp = 1, ep = 1;
  CpForm cp_form = CpForm::kUlysses;
  bool peer_copies = true;
  double timeout_s = 300, lost_after_s = 15;

  template <typename Visitor>
  void describe(Visitor& v) {
    v("tp", tp, "tensor parallel degree");
    v("cp", cp, "context parallel degree");
    v("cp_form", cp_form, kCpFormText);
    v("pp", pp, "pipeline parallel degree");
    v("pp_chunks", pp_chunks, "chunks of layers of a pipeline's rank (virtual stages, interleaved 1F1B); 1 = 1F1B");
    v("dp", dp, "data parallel degree (optimizer state sharded)");
    v("ep", ep, "expert parallel degree; divides dp * cp. Its groups are made; no model with experts is trained yet");
    v("peer_copies", peer_copies,
      "whether gradients and weights of dp ranks on GPUs of one host go by the copy engines, beside products; else by "
      "NCCL, to the same bits with two ranks");
    v("timeout_s", timeout_s, above(0), "seconds that a collective may wait for a rank before the job counts as hung");
    v("lost_after_s", lost_after_s, above(0), "seconds without a word after which a rank counts as gone");
  }

  int64_t world() const { return tp * cp * dp * pp; }

  // kUsage for degrees that no job can have.
  void validate() const {
    for (const auto& [axis, degree] : {std::pair{"tp", tp}, {"cp", cp}, {"pp", pp}, {"dp", dp}, {"ep", ep}}) {
      if (degree < 1) fail(ErrorKind::kUsage, "parallel.{} must be at least 1, not {}", axis, degree);
    }
    if (dp * cp % ep != 0) fail(ErrorKind::kUsage, "parallel.ep {} does not divide dp * cp = {}", ep, dp * cp);
    if (pp_chunks < 1 || (pp_chunks > 1 && pp == 1))
      fail(ErrorKind::kUsage, "parallel.pp_chunks {}: at least 1, and 1 without a pipeline (parallel.pp is {})",
           pp_chunks, pp);
  }
};

// Where a rank stands: tp varies fastest with it, then cp, then dp, and pp slowest: what talks most lies closest.
struct Coordinates {
  int64_t tp = 0, cp = 0, dp = 0, pp = 0;
  bool operator==(const Coordinates&) const = default;
};
inline Coordinates coordinates_of(const ParallelDims& dims, int64_t rank) {
  return {rank % dims.tp, rank / dims.tp % dims.cp, rank / (dims.tp * dims.cp) % dims.dp,
          rank / (dims.tp * dims.cp * dims.dp)};
}

// Of ranks with the same weights, by their number among these: ep neighbours share out the experts, and those at one
// place among such neighbours have the same ones.
struct ExpertCoordinates {
  int64_t ep = 0, replica = 0;
  bool operator==(const ExpertCoordinates&) const = default;
};
inline ExpertCoordinates expert_coordinates_of(const ParallelDims& dims, const Coordinates& at) {
  const int64_t z = at.dp * dims.cp + at.cp;
  return {z % dims.ep, z / dims.ep};
}

struct WorldOptions {
  int64_t rank = 0;
  std::string rendezvous;          // HOST:PORT, where rank 0 listens
  std::string api_key;             // of the rendezvous; any host but loopback needs one
  std::string host = "127.0.0.1";  // where this rank's collectives listen
  double beat_s = 1;               // between two words to the rendezvous

  template <typename Visitor>
  void describe(Visitor& v) {
    v("rank", rank, at_least(0), "of this process among the tp * cp * dp * pp of its job");
    v("rendezvous", rendezvous, "HOST:PORT at which rank 0 listens for the others");
    v("rank_host", host, "address of this machine at which the other ranks reach this one's collectives");
  }
};

}  // namespace tritonforge::parallel
