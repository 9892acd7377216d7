#pragma once
// Shares of the ranks of one host, each a process with a GPU, by the copy engines: beside products, which NCCL's
// kernels take multiprocessors from. Only over memory that the ranks have lent each other.
//
// A collective is: this rank's memory is ready; wait until all others' is; copy what is wanted out of theirs; say so,
// and wait until they have what they want. So where it has ended nobody reads this rank's memory, and what it was
// called with may be written again, as with NCCL. Each of the two meetings has the next number, which the stream writes
// to a flag of each pair of ranks in the host's memory, once what is queued before it is done, and waits for.
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu/handles.h"
#include "parallel/group.h"

namespace tritonforge::parallel {

// Of a GPU's memory, for others' parts of a sum; what is longer is added piece by piece.
constexpr int64_t kCopiesStaging = int64_t{128} << 20;

// `of`, cut into pieces of at most `longest` elements.
std::vector<Share> pieces_of(const Share& of, int64_t longest);

// Of one group of ranks, which all call the same in the same order.
class PeerCopies {
 public:
  // unit: of its shares; what `place` names outlives this.
  PeerCopies(std::string name, int64_t rank, int64_t size, int64_t unit, GroupPlace place);
  ~PeerCopies();
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  // Opens x's memory to the others and theirs to this rank; it is kept until this goes. False on all ranks where it
  // cannot be done on one: on several hosts, without peer access, or where ranks are threads of one process. There a
  // thread that waits in the driver for its device keeps the others from queueing what that device waits for.
  bool lend(const at::Tensor& x);
  bool lent(const at::Tensor& x) const { return find(x) != nullptr; }

  // Of what is lent, which lies at the same place of it on every rank. Queued on stream().
  gpu::Stream stream() const { return stream_; }
  void reduce_scatter(const at::Tensor& x);  // shares of multiples of 8 elements, added as gpu::AddPartsArgs says
  void all_gather(const at::Tensor& x);

  // What is queued goes on without the others.
  void abandon();

 private:
  class Flags;
  struct Lent {
    at::Tensor mine;
    std::vector<std::byte*> of_ranks;  // where it begins here
    std::vector<void*> mapped;
  };
  std::vector<std::string> exchange(std::string mine);  // of all ranks
  std::string make_flags();                             // with all ranks; why not
  std::string map(const std::vector<std::string>& offers, Lent& lent);
  const Lent* find(const at::Tensor& x) const;
  void close(const Lent& lent) const;
  // Of rank r, from x's `element` on.
  std::byte* at(const Lent& lent, int64_t rank, const at::Tensor& x, int64_t element) const;
  void meet();
  void release() const;

  const gpu::CudaApi& api_;
  const std::string name_;
  const int64_t rank_, size_, unit_;
  const GroupPlace place_;
  int64_t exchanges_ = 0;
  bool refused_ = false;
  std::unique_ptr<Flags> flags_;
  gpu::DeviceMemory staging_;
  std::vector<Lent> lent_;
  uint32_t meetings_ = 0;
  bool abandoned_ = false;
  // Not a high-priority one: what adds would take places from the blocks of the product that is being computed.
  gpu::GpuStream stream_;
  gpu::GpuEvent last_;
};

}  // namespace tritonforge::parallel
