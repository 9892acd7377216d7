#include "weights/group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <optional>

#include "base/error.h"
#include "base/named_enum.h"
#include "kernels/device.h"
#include "net/address.h"
#include "weights/nccl_comm.h"

namespace tritonforge::weights {
namespace {

using Milliseconds = std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

Milliseconds left(Deadline deadline) {
  return Milliseconds(std::max<int64_t>(1, static_cast<int64_t>(deadline.remaining_s() * 1e3)));
}

std::string said_of(const GroupPlace& place) {
  return fmt::format("group '{}', rank {} of {} at {}:{}", place.name, place.rank, place.world_size,
                     place.master_address, place.master_port);
}

// What libtorch throws has a trace behind its first line.
template <typename Work>
auto named(const GroupPlace& place, const char* what, Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    fail(ErrorKind::kUnavailable, "{}: {}: {}", said_of(place), what, text.substr(0, text.find('\n')));
  }
}

StorePtr open_store(const GroupPlace& place, const std::string& device, Deadline deadline) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.master_port);
  options.isServer = place.rank == 0;
  options.numWorkers = static_cast<size_t>(place.world_size);
  options.timeout = left(deadline);
  options.multiTenant = true;
  StorePtr store = c10::make_intrusive<c10d::TCPStore>(place.master_address, options);
  // init_custom_process_group()'s prefix, then the two of _new_process_group_helper().
  for (const std::string& prefix : {place.name, place.name + "/", device + "/"})
    store = c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  return store;
}

class GlooBroadcast : public BroadcastGroup {
 public:
  GlooBroadcast(const GroupPlace& place, Deadline deadline) : place_(place) {
    named(place_, "joining", [&] {
      const auto options = c10d::ProcessGroupGloo::Options::create(left(deadline));
      options->devices.push_back(
          c10d::ProcessGroupGloo::createDeviceForHostname(net::own_address_towards(place.master_address)));
      gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(open_store(place, "cpu", deadline), place.rank,
                                                          place.world_size, options);
      return 0;
    });
  }
  void broadcast(const at::Tensor& tensor, Deadline deadline) override {
    named(place_, "a broadcast", [&] {
      std::vector<at::Tensor> tensors{tensor};
      c10d::BroadcastOptions options;
      options.timeout = left(deadline);
      return gloo_->broadcast(tensors, options)->wait();
    });
  }
  at::Device device() const override { return at::kCPU; }

 private:
  const GroupPlace place_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

// ProcessGroupNCCL's rank 0 puts the communicator's id into the store at its first collective, as number 0.
class NcclBroadcast : public BroadcastGroup {
 public:
  NcclBroadcast(const GroupPlace& place, at::Device device, Deadline deadline)
      : device_(device),
        api_(gpu::open_cuda_library()),
        store_(named(place, "joining", [&] { return open_store(place, "cuda", deadline); })),
        place_(place) {}
  void broadcast(const at::Tensor& tensor, Deadline deadline) override {
    gpu::check_cuda(api_.set_device(device_.index()));
    try {
      if (!comm_) open(deadline);
      kernels::synchronize(device_);  // what was queued for the tensor's memory
      comm_->broadcast(tensor.mutable_data_ptr(), static_cast<int64_t>(tensor.nbytes()), deadline, *queue_);
      ended_->record(*queue_);
      comm_->wait(*ended_, deadline);
    } catch (...) {
      comm_.reset();  // before the tensor goes, which it may still write to
      throw;
    }
  }
  at::Device device() const override { return device_; }

 private:
  void open(Deadline deadline) {
    constexpr const char* kIdKey = "0";
    gpu::NcclId id{};
    named(place_, "joining", [&] {
      if (place_.rank == 0) {
        gpu::check_cuda(api_.nccl_id(&id));
        store_->set(kIdKey, std::vector<uint8_t>(id.bytes, id.bytes + sizeof id.bytes));
        return 0;
      }
      store_->wait({kIdKey}, left(deadline));
      const std::vector<uint8_t> bytes = store_->get(kIdKey);
      TF_CHECK(bytes.size() == sizeof id.bytes, "an id of NCCL of {} bytes", bytes.size());
      std::copy(bytes.begin(), bytes.end(), id.bytes);
      return 0;
    });
    queue_.emplace();
    ended_.emplace();
    comm_.emplace(said_of(place_), id, place_.rank, place_.world_size, deadline);
  }

  const at::Device device_;
  const gpu::CudaApi& api_;
  const StorePtr store_;
  const GroupPlace place_;
  // Made on the device.
  std::optional<gpu::GpuStream> queue_;
  std::optional<gpu::GpuEvent> ended_;
  std::optional<NcclComm> comm_;  // goes first, and with it what is under way
};

}  // namespace

std::unique_ptr<BroadcastGroup> join_group(const GroupPlace& place, at::Device device, Deadline deadline) {
  if (place.world_size < 2 || place.rank < 0 || place.rank >= place.world_size)
    fail(ErrorKind::kUsage, "group '{}': rank {} of {} is none", place.name, place.rank, place.world_size);
  if (place.master_port < 1 || place.master_port > 65535)
    fail(ErrorKind::kUsage, "group '{}': port {} is not one of 1 to 65535", place.name, place.master_port);
  if (place.backend == "gloo") return std::make_unique<GlooBroadcast>(place, deadline);
  if (place.backend != "nccl")
    fail(ErrorKind::kUnsupported, "group '{}': backend '{}'{}", place.name, place.backend,
         nearest_hint(place.backend, {"gloo", "nccl"}));
  if (!device.is_cuda())
    fail(ErrorKind::kUnsupported, "group '{}': backend nccl needs a GPU, this is on {}: pass \"backend\": \"gloo\"",
         place.name, device.str());
  return std::make_unique<NcclBroadcast>(place, device, deadline);
}

}  // namespace tritonforge::weights
