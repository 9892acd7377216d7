#pragma once
// A group of ranks and its collectives, over the tensors of one device: Gloo's for the host's memory, NCCL's for a
// GPU's. All ranks of a group call the same operations in the same order, with tensors of one size and dtype.
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <string_view>

#include "parallel/recorder.h"
#include "parallel/rendezvous.h"

namespace tritonforge::parallel {

// The part of a flat tensor of `count` elements that is a rank's: equal ones, at multiples of 128 elements, and the
// rest with the last one's. Some are empty where there is little.
struct Share {
  int64_t begin, count;
  bool operator==(const Share&) const = default;
};
Share share_of(int64_t count, int64_t ranks, int64_t rank);

// An operation under way. Its tensors stay alive and are left alone until wait().
class Pending {
 public:
  virtual ~Pending() = default;
  // What is queued or done afterwards finds the result. Throws kUnavailable naming group, operation and tensor where a
  // rank is gone. On a GPU it does not wait itself.
  virtual void wait() = 0;
};
using PendingPtr = std::unique_ptr<Pending>;

class Group {
 public:
  Group(std::string name, int64_t rank, int64_t size) : name_(std::move(name)), rank_(rank), size_(size) {}
  virtual ~Group() = default;
  const std::string& name() const { return name_; }
  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  // x: flat and contiguous. `what` names it in messages. In place.
  virtual PendingPtr all_reduce(const at::Tensor& x, std::string_view what) = 0;      // sum
  virtual PendingPtr reduce_scatter(const at::Tensor& x, std::string_view what) = 0;  // sum of the rank's share
  virtual PendingPtr all_gather(const at::Tensor& x, std::string_view what) = 0;      // of the ranks' shares
  virtual PendingPtr broadcast(const at::Tensor& x, int64_t root, std::string_view what) = 0;

 protected:
  at::Tensor share(const at::Tensor& x, int64_t rank) const {
    const Share part = share_of(x.numel(), size_, rank);
    return x.narrow(0, part.begin, part.count);
  }

 private:
  const std::string name_;
  const int64_t rank_, size_;
};

// Returns once all of its ranks are there. The recorder and the meeting outlive it.
std::unique_ptr<Group> make_gloo_group(std::string name, int64_t rank, int64_t size, const std::string& host,
                                       Meeting& meeting, FlightRecorder& recorder, double timeout_s);
std::unique_ptr<Group> make_nccl_group(std::string name, int64_t rank, int64_t size, at::Device device,
                                       Meeting& meeting, FlightRecorder& recorder, double timeout_s);

}  // namespace tritonforge::parallel
