#include "train/optimizer_files.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::train {
namespace {

constexpr const char* kWhole = "optimizer.safetensors";
constexpr const char* kPieces = "pieces";  // in the file's metadata: {NAME: {"begin", "shape"}} of what is not whole

// The name under which checksums.json knows a tensor of the file.
std::string sum_name(const fs::path& file, const std::string& tensor) {
  return file.filename() == kWhole ? tensor : file.filename().string() + ":" + tensor;
}

}  // namespace

Json write_optimizer(const StatePieces& pieces, const fs::path& folder, int64_t rank, int64_t ranks) {
  const fs::path file = folder /
                        (ranks == 1 ? kWhole : fmt::format("optimizer-{:05}-of-{:05}.safetensors", rank + 1, ranks));
  NamedTensors named;
  Json parts = Json::object();
  for (const StatePiece& piece : pieces) {
    named.emplace_back(piece.name, piece.values);
    if (piece.values.sizes() != piece.shape) parts[piece.name] = {{"begin", piece.begin}, {"shape", piece.shape}};
  }
  Json sums = Json::object();
  for (const auto& [name, sum] : model::save_safetensors(named, file, {{kPieces, parts.dump()}}))
    sums[sum_name(file, name)] = sum;
  return sums;
}

OptimizerFiles::OptimizerFiles(const fs::path& folder, Json written) : folder_(folder), written_(std::move(written)) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (!path.filename().string().starts_with("optimizer") || path.extension() != ".safetensors") continue;
    const auto& file = *files_.emplace_back(std::make_unique<model::SafetensorsFile>(path));
    const auto found = file.metadata().find(kPieces);
    const Json pieces = found == file.metadata().end() ? Json::object() : parse_json(found->second, path.string());
    for (const std::string& name : file.names()) {
      std::vector<int64_t> shape = file.shape(name);
      const int64_t count = c10::multiply_integers(shape);
      int64_t begin = 0;
      if (pieces.contains(name)) {
        begin = require<int64_t>(pieces[name], "begin", path.string());
        shape = require<std::vector<int64_t>>(pieces[name], "shape", path.string());
      }
      parts_[name].push_back({&file, name, begin, count, std::move(shape)});
    }
  }
  if (files_.empty()) fail(ErrorKind::kCorrupt, "{}: holds no {}", folder.string(), kWhole);
}

void OptimizerFiles::verify(Part& part, const at::Tensor& values) {
  if (std::exchange(part.verified, true)) return;
  const std::string known = sum_name(part.file->path(), part.name);
  const std::string sum = model::checksums_of({{part.name, values}}).at(part.name);
  if (!written_.contains(known) || written_[known] == sum) return;
  fail(ErrorKind::kCorrupt, "{}: tensor '{}' has the checksum {}, {} was written: the file is damaged",
       part.file->path().string(), part.name, sum, written_[known].dump());
}

void OptimizerFiles::read(const StatePiece& to) {
  const auto found = parts_.find(to.name);
  if (found == parts_.end()) {
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' of the optimizer is missing (was it saved with another dtype?)",
         folder_.string(), to.name);
  }
  at::Tensor flat = to.values.view({-1});
  int64_t filled = 0;  // its first ones
  std::ranges::sort(found->second, {}, &Part::begin);
  for (Part& part : found->second) {
    const std::string file = part.file->path().string();
    if (part.shape != to.shape) {
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' is of [{}], expected [{}]", file, to.name, fmt::join(part.shape, ", "),
           fmt::join(to.shape, ", "));
    }
    const int64_t from = std::max(part.begin, to.begin + filled),
                  end = std::min(part.begin + part.count, to.begin + flat.numel());
    if (part.begin > to.begin + filled || from >= end) continue;
    const at::Tensor values = part.file->tensor(part.name);
    if (values.scalar_type() != flat.scalar_type()) {
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' is {}, expected {}", file, to.name, at::toString(values.scalar_type()),
           at::toString(flat.scalar_type()));
    }
    verify(part, values);
    flat.narrow(0, from - to.begin, end - from).copy_(values.reshape({-1}).narrow(0, from - part.begin, end - from));
    filled = end - to.begin;
  }
  if (filled < flat.numel()) {
    fail(ErrorKind::kCorrupt, "{}: elements from {} on of the optimizer's tensor '{}' are in none of its {} files",
         folder_.string(), to.begin + filled, to.name, files_.size());
  }
}

}  // namespace tritonforge::train
