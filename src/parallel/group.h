#pragma once
// A group of ranks and its collectives, over the tensors of one device: Gloo's for the host's memory, NCCL's for a
// GPU's. All ranks of a group call the same operations in the same order, with tensors of one size and dtype.
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <string_view>

#include "parallel/dims.h"
#include "parallel/recorder.h"
#include "parallel/rendezvous.h"

namespace tritonforge::parallel {

// The part of a flat tensor of `count` elements that is a rank's: equal ones, at multiples of `unit` elements, and the
// rest with the last one's. Some are empty where there is little.
struct Share {
  int64_t begin, count;
  bool operator==(const Share&) const = default;
};
constexpr int64_t kShareUnit = 128;  // of arenas, whose tensors begin at such places
Share share_of(int64_t count, int64_t ranks, int64_t rank, int64_t unit = kShareUnit);

// An operation under way. Its tensors stay alive and are left alone until wait().
class Pending {
 public:
  virtual ~Pending() = default;
  // What is queued or done afterwards finds the result. Throws kUnavailable naming group, operation and tensor where a
  // rank is gone. On a GPU it does not wait itself.
  virtual void wait() = 0;
};
using PendingPtr = std::unique_ptr<Pending>;
// Whether it is what wait() throws: this rank could have gone on.
bool is_of_another(const std::exception& error);

class Group {
 public:
  // unit: of its shares.
  Group(std::string name, int64_t rank, int64_t size, int64_t unit)
      : name_(std::move(name)), rank_(rank), size_(size), unit_(unit) {}
  virtual ~Group() = default;
  const std::string& name() const { return name_; }
  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  // All ranks lend each other x's memory for as long as the group is there: reduce_scatter and all_gather of x, and of
  // parts of it that lie at the same place on each rank, may then go past what the others go by. Whether they do.
  virtual bool lend(const at::Tensor& /*x*/) { return false; }

  // x: flat and contiguous. `what` names it in messages. In place.
  virtual PendingPtr all_reduce(const at::Tensor& x, std::string_view what) = 0;      // sum
  virtual PendingPtr reduce_scatter(const at::Tensor& x, std::string_view what) = 0;  // sum of the rank's share
  virtual PendingPtr all_gather(const at::Tensor& x, std::string_view what) = 0;      // of the ranks' shares
  virtual PendingPtr broadcast(const at::Tensor& x, int64_t root, std::string_view what) = 0;
  // Both of size() equal parts: part r of `from` becomes part rank() of rank r's `to`.
  virtual PendingPtr all_to_all(const at::Tensor& to, const at::Tensor& from, std::string_view what) = 0;
  // Round a ring: `from` becomes the next rank's `to`, as the previous one's becomes this rank's.
  virtual PendingPtr shift(const at::Tensor& to, const at::Tensor& from, std::string_view what) = 0;
  // From one rank to another, of which only these two know; in the order in which they are sent. Each must be waited
  // for, and a send's wait may last until the other rank has received.
  virtual PendingPtr send(const at::Tensor& x, int64_t to, std::string_view what) = 0;
  virtual PendingPtr receive(const at::Tensor& x, int64_t from, std::string_view what) = 0;

  // How long the device has stood still for collectives, since this was last called. Of a GPU: what was queued until
  // then is done.
  virtual double waited_s() = 0;
  // Of a job that failed, before it goes: what is under way is ended, for its ranks may never come.
  virtual void abandon() {}

 protected:
  int64_t next() const { return (rank_ + 1) % size_; }
  int64_t previous() const { return (rank_ + size_ - 1) % size_; }
  Share share(int64_t count, int64_t rank) const { return share_of(count, size_, rank, unit_); }

 private:
  const std::string name_;
  const int64_t rank_, size_, unit_;
};

// The ranks among which a model, a micro-batch and the optimizer's state are shared out; null where one has all. Over
// the tensors of the ranks' device.
struct Groups {
  Group* tp = nullptr;  // each with its part of every matrix, and of the tokens between them
  Group* cp = nullptr;  // each with its part of a micro-batch's tokens
  CpForm cp_form = CpForm::kUlysses;
  Group* zero = nullptr;  // each with its part of the optimizer's state: those that have the same weights, dp x cp
  // Of those, the ranks that share out experts, and those with the same ones, which will share out their states. Made
  // where ep is above 1, and used by nothing yet.
  Group *ep = nullptr, *expert_zero = nullptr;
  // The stages of a pipeline, in their order, each with its layers: for what goes to the next one and, so that neither
  // waits behind the other, for the gradients that come back.
  Group *onward = nullptr, *back = nullptr;
  bool any() const { return tp != nullptr || cp != nullptr || zero != nullptr || onward != nullptr; }
};

// What a group is made with; all of it outlives the group.
struct GroupPlace {
  std::string host;  // of this machine, at which Gloo listens
  Meeting& meeting;
  FlightRecorder& recorder;
  double timeout_s;
  bool peer_copies = true;  // whether what is lent goes by the copy engines where it can (peer_copies.h)
};
// Return once all of its ranks are there.
std::unique_ptr<Group> make_gloo_group(std::string name, int64_t rank, int64_t size, int64_t unit,
                                       const GroupPlace& place);
std::unique_ptr<Group> make_nccl_group(std::string name, int64_t rank, int64_t size, int64_t unit, at::Device device,
                                       const GroupPlace& place);

}  // namespace tritonforge::parallel
