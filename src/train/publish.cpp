#include "train/publish.h"

#include "base/error.h"
#include "base/log.h"
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

}  // namespace

Publisher::Publisher(const std::string& run_id, fs::path tokenizer_source)
    : shared_(run_id), tokenizer_source_(std::move(tokenizer_source)) {}

PublishedWeights Publisher::to_shared_memory(const model::Model& model, int64_t version) {
  const fs::path& folder = shared_.path();
  const int64_t needed = weight_bytes(model);
  const auto available = static_cast<int64_t>(fs::space(folder).available);
  if (available < needed) {
    fail(ErrorKind::kUnavailable, "{}: the weights need {} MiB, {} MiB are free", folder.string(), needed >> 20,
         available >> 20);
  }
  PublishedWeights published{folder / fmt::format("weights-{:08}.safetensors", version), version, {}};
  published.checksums = model::save_safetensors(model.named_parameters(), published.path,
                                                {{"format", "pt"}, {"weight_version", std::to_string(version)}});
  remove_others(folder, "weights-", published.path);
  return published;
}

PublishedWeights Publisher::to_folder(const model::Model& model, int64_t version, const fs::path& folder) {
  PublishedWeights published{folder / fmt::format("version-{:08}", version), version, {}};
  export_model(model, tokenizer_source_, published.path);
  published.checksums = model::weight_checksums(model);
  remove_others(folder, "version-", published.path);
  return published;
}

}  // namespace tritonforge::train
