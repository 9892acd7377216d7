#pragma once
// Bytes from a source to a row of receivers, in pieces: over Gloo each passes on what it has to the next one, so that
// every link carries them once; over NCCL they are broadcast between GPUs. Who dies or does not move ends it for the
// others, by an error: none of them waits for ever.
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>

#include "parallel/rendezvous.h"

namespace tritonforge::weights {

constexpr int64_t kPieceBytes = int64_t{4} << 20;  // of the stream that is sent at once

struct RelayPlace {
  parallel::Meeting& meeting;  // where the members find each other; outlives the relay
  std::string name;            // of this relay among all
  int64_t place = 0, size = 0;
  std::string host;     // of this process, as the others reach it
  double stall_s = 15;  // in which nothing moves: it has failed
};

// Every member calls pass_all() once, with streams [bytes] of one size, kByte: over Gloo in the host's memory, over
// NCCL there or on the GPU.
class Relay {
 public:
  virtual ~Relay() = default;
  // The source's bytes; a receiver's become those. `arrived` is told how many of a receiver's are there, in order.
  // Returns once they are with this member and, of the next one in the row, it is known whether they are there. Throws
  // kUnavailable where one of those before it is gone or stands still, and, as long as not all bytes are there, one
  // behind it.
  virtual void pass_all(const at::Tensor& stream, const std::function<void(int64_t)>& arrived) = 0;
};

// Return once the neighbours are there; throw kUnavailable where they are not within stall_s.
std::unique_ptr<Relay> make_gloo_relay(const RelayPlace& place);
std::unique_ptr<Relay> make_nccl_relay(const RelayPlace& place, at::Device device);
inline std::unique_ptr<Relay> make_relay(const RelayPlace& place, bool nccl, at::Device device) {
  return nccl ? make_nccl_relay(place, device) : make_gloo_relay(place);
}

}  // namespace tritonforge::weights
