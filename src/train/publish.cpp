#include "train/publish.h"

#include "base/error.h"
#include "base/log.h"
#include "model/weights.h"
#include "train/numbered.h"
#include "weights/cuda_ipc.h"

namespace tritonforge::train {
namespace {

constexpr int64_t kHeaderRoom = 1 << 20;

// Removes the entries of `folder` with such a name, apart from `keep`.
void remove_others(const fs::path& folder, std::string_view before, std::string_view after, const fs::path& keep) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_numbered(entry.path().filename().string(), before, after) || entry.path() == keep) continue;
    fs::remove_all(entry.path(), error);
    if (error) log::warn("cannot remove the old weights {}: {}", entry.path().string(), error.message());
  }
}

int64_t weight_bytes(const model::Model& model) {
  int64_t bytes = kHeaderRoom;
  for (const auto& [name, tensor] : model.named_parameters()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

void Publisher::serve(const std::string& host, const std::string& key) {
  server_ = std::make_unique<net::BulkServer>(
      net::BulkServerOptions{.host = host, .key = key, .tls = net::bulk_tls().value_or(net::TlsFiles{})});
  host_ = host;
}

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
  published.device = weights::offer_device(model);
  if (server_) published.tcp = StreamedWeights{host_, server_->port()};
  if (!published.device) {
    published.checksums = model::save_safetensors(layout, published.path);
    if (server_) server_->offer(static_cast<uint64_t>(version), published.path);
    remove_others(folder, "weights-", ".safetensors", published.path);
    return published;
  }
  published.checksums = model::weight_checksums(model);
  if (server_) server_->announce(static_cast<uint64_t>(version));
  writing_ = std::async(std::launch::async,
                        [this, layout, path = published.path, version] { write_file(layout, path, version); });
  return published;
}

// The older of the two files takes the new weights: an engine may be reading the newer one.
void Publisher::write_file(const model::SafetensorsLayout& layout, const fs::path& path, int64_t version) {
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i]) files_[i] = std::make_unique<PinnedFile>(shared_.path() / fmt::format("spare-{}", i));
  }
  auto& [newer, older] = files_;
  older->write(layout, path);
  if (server_) server_->offer(static_cast<uint64_t>(version), path);
  if (newer->is(path)) newer->drop();
  else newer->retire();
  std::swap(newer, older);
  remove_others(path.parent_path(), "weights-", ".safetensors", path);
}

void Publisher::settle() {
  if (writing_.valid()) writing_.get();
}

PublishedWeights Publisher::to_folder(int64_t version, const fs::path& folder,
                                      const std::function<TensorChecksums(const fs::path& folder)>& write) {
  PublishedWeights published{folder / fmt::format("version-{:08}", version), version, {}, {}};
  published.checksums = write(published.path);
  remove_others(folder, "version-", "", published.path);
  return published;
}

}  // namespace tritonforge::train
