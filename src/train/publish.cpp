#include "train/publish.h"

#include "base/error.h"
#include "base/log.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"
#include "model/weights.h"
#include "train/checkpoint.h"

namespace tritonforge::train {
namespace {

constexpr int64_t kHeaderRoom = 1 << 20;

// Removes the entries of `folder` that begin with `prefix`, apart from `keep`.
void remove_others(const fs::path& folder, const std::string& prefix, const fs::path& keep) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind(prefix, 0) != 0 || entry.path() == keep) continue;
    fs::remove_all(entry.path(), error);
    if (error) log::warn("cannot remove the old weights {}: {}", entry.path().string(), error.message());
  }
}

int64_t weight_bytes(const model::Model& model) {
  int64_t bytes = kHeaderRoom;
  for (const auto& [name, tensor] : model.named_parameters()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// Where the model lies on a GPU whose memory other processes can map.
std::optional<DeviceWeights> device_weights(const model::Model& model) {
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
  return DeviceWeights{kernels::device_identity(arena.device()), hex, handle.offset, arena.nbytes(), model.layout()};
}

}  // namespace

Publisher::Publisher(const std::string& run_id, fs::path tokenizer_source)
    : shared_(run_id), tokenizer_source_(std::move(tokenizer_source)) {}

PublishedWeights Publisher::to_shared_memory(const model::Model& model, int64_t version) {
  settle();
  const fs::path& folder = shared_.path();
  const int64_t needed = weight_bytes(model) - (files_[1] ? files_[1]->capacity() : 0);
  const auto available = static_cast<int64_t>(fs::space(folder).available);
  if (available < needed) {
    fail(ErrorKind::kUnavailable, "{}: the weights need {} MiB, {} MiB are free", folder.string(), needed >> 20,
         available >> 20);
  }
  PublishedWeights published{folder / fmt::format("weights-{:08}.safetensors", version), version, {}, {}};
  const model::SafetensorsLayout layout = model::lay_out_safetensors(
      model.named_parameters(), {{"format", "pt"}, {"weight_version", std::to_string(version)}});
  published.device = device_weights(model);
  if (!published.device) {
    published.checksums = model::save_safetensors(layout, published.path);
    remove_others(folder, "weights-", published.path);
    return published;
  }
  published.checksums = model::weight_checksums(model);
  writing_ = std::async(std::launch::async, [this, layout, path = published.path] { write_file(layout, path); });
  return published;
}

// The older of the two files takes the new weights: an engine may be reading the newer one.
void Publisher::write_file(const model::SafetensorsLayout& layout, const fs::path& path) {
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i]) files_[i] = std::make_unique<PinnedFile>(shared_.path() / fmt::format("spare-{}", i));
  }
  auto& [newer, older] = files_;
  older->write(layout, path);
  if (newer->is(path)) newer->drop();
  else newer->retire();
  std::swap(newer, older);
  remove_others(path.parent_path(), "weights-", path);
}

void Publisher::settle() {
  if (writing_.valid()) writing_.get();
}

PublishedWeights Publisher::to_folder(const model::Model& model, int64_t version, const fs::path& folder) {
  PublishedWeights published{folder / fmt::format("version-{:08}", version), version, {}, {}};
  export_model(model, tokenizer_source_, published.path);
  published.checksums = model::weight_checksums(model);
  remove_others(folder, "version-", published.path);
  return published;
}

}  // namespace tritonforge::train
