#include "weights/cuda_ipc.h"

#include <unistd.h>

#include <climits>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"

namespace tritonforge::weights {
namespace {

gpu::IpcHandle handle_of(const DeviceWeights& weights) {
  gpu::IpcHandle handle{};
  const auto digit = [&](size_t i) {
    const char c = weights.handle[i];
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail(ErrorKind::kUsage, "device weights: the handle holds '{}', which is no hex digit", c);
  };
  if (weights.handle.size() != 2 * sizeof handle.bytes) {
    fail(ErrorKind::kUsage, "device weights: a handle of {} hex digits, expected {}", weights.handle.size(),
         2 * sizeof handle.bytes);
  }
  for (size_t i = 0; i < sizeof handle.bytes; ++i)
    handle.bytes[i] = static_cast<char>(16 * digit(2 * i) + digit(2 * i + 1));
  handle.offset = weights.offset;
  return handle;
}

}  // namespace

std::string ipc_host() {
  std::error_code none;  // gVisor has no boot_id
  std::string host;
  const fs::path boot = "/proc/sys/kernel/random/boot_id";
  if (fs::exists(boot, none)) {
    host = read_file(boot);
    host.erase(host.find_last_not_of(" \n") + 1);
  } else {
    host.resize(HOST_NAME_MAX + 1);
    ::gethostname(host.data(), host.size() - 1);
    host.resize(std::strlen(host.c_str()));
  }
  return host + " " + fs::read_symlink("/proc/self/ns/ipc", none).string();
}

std::string why_not_mapped(const DeviceWeights& weights, const Mapper& mapper) {
  if (!mapper.device.is_cuda())
    return fmt::format("they lie on {}, this engine computes on {}", weights.device, mapper.device.str());
  if (weights.layout != mapper.layout || weights.bytes != mapper.bytes)
    return fmt::format("{} bytes of layout {}, this engine's are {} of layout {}", weights.bytes, weights.layout,
                       mapper.bytes, mapper.layout);
  if (weights.host != mapper.host)
    return fmt::format("they lie on another host or in another container: {}, this is {}", weights.host, mapper.host);
  return "";
}

StagedWeights map_weights(const model::Parts& model, const DeviceWeights& weights, const TensorChecksums& checksums) {
  const at::Device device = model.first().device();
  const model::Model trainers(model.config(), model.dtype(), at::kMeta);  // as the trainer lays it out: no memory
  const at::Tensor& arena = trainers.arena();
  const std::string against = why_not_mapped(weights, {ipc_host(), device, arena.nbytes(), trainers.layout()});
  if (!against.empty()) fail(ErrorKind::kUnsupported, "device weights: {}", against);
  if (checksums.empty()) fail(ErrorKind::kUsage, "device weights: none without checksums, their owner may change them");
  const gpu::IpcHandle handle = handle_of(weights);
  const auto& api = gpu::open_cuda_library();
  gpu::check_cuda(api.set_device(device.index()));
  void* begin = nullptr;
  if (api.ipc_open(&handle, &begin) != 0) {
    fail(ErrorKind::kUnavailable,
         "device weights: {} does not map those of {}: they are stale, since the trainer that published them is gone, "
         "or there is no peer access between the two ({})",
         kernels::device_identity(device), weights.device, api.last_error());
  }
  StagedWeights staged;
  staged.mapping = std::shared_ptr<const void>(begin, [&api](void* mapped) { api.ipc_close(mapped); });
  const at::Tensor whole = at::from_blob(static_cast<std::byte*>(begin) + handle.offset, arena.sizes(), arena.strides(),
                                         0, nullptr, arena.options().device(device), device);
  for (const auto& [name, tensor] : trainers.named_parameters()) {
    const at::Tensor found = whole.narrow(0, tensor.storage_offset() - arena.storage_offset(), tensor.numel());
    staged.unread.emplace_back(name, found.view(tensor.sizes()));
  }
  if (model.size() == 1 && !model.first().fp8_matrices()) {
    staged.copies.emplace_back(model.first().arena(), whole);
  } else {
    const auto targets = model.tensors();
    for (size_t i = 0; i < targets.size(); ++i) staged.add(targets[i], staged.unread[i].second);
  }
  staged.expected = checksums;
  return staged;
}

std::optional<DeviceWeights> offer_device(const model::Model& model) {
  const at::Tensor& arena = model.arena();
  if (!arena.is_cuda()) return std::nullopt;
  gpu::IpcHandle handle{};
  try {
    const auto& api = gpu::open_cuda_library();
    gpu::check_cuda(api.set_device(arena.device().index()));
    gpu::check_cuda(api.ipc_get(arena.mutable_data_ptr(), &handle));
  } catch (const Error& error) {
    log::warn("the weights are published as a file alone: {}", error.what());
    return std::nullopt;
  }
  std::string hex;
  for (const char byte : handle.bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return DeviceWeights{ipc_host(),    kernels::device_identity(arena.device()), hex, handle.offset, arena.nbytes(),
                       model.layout()};
}

}  // namespace tritonforge::weights
