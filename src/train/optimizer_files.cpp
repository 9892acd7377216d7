#include "train/optimizer_files.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tritonforge::train {
namespace {

constexpr const char* kWhole = "optimizer.safetensors";
constexpr const char* kPieces = "pieces";  // in the file's metadata: {NAME: {"begin", "shape"}} of what is not whole

// The name under which checksums.json knows a tensor of the file.
std::string sum_name(const fs::path& file, const std::string& tensor) {
  return file.filename() == kWhole ? tensor : file.filename().string() + ":" + tensor;
}

// A stretch of a tensor's elements that lie in a part of it side by side.
struct Run {
  int64_t place, at, count;  // in the tensor, in the part
};
std::vector<Run> runs_of(const ElementRange& elements, int64_t count) {
  if (elements.width == 0) return {{elements.begin, 0, count}};
  std::vector<Run> runs;
  for (int64_t at = 0; at < count;) {
    const int64_t in_block = elements.begin + at, column = in_block % elements.width;
    const int64_t length = std::min(count - at, elements.width - column);
    runs.push_back({in_block / elements.width * elements.columns + elements.column + column, at, length});
    at += length;
  }
  return runs;
}

// What two parts of a tensor have in common: f(at of a, at of b, elements).
template <typename F>
void over_common(const std::vector<Run>& a, const std::vector<Run>& b, const F& f) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t from = std::max(a[i].place, b[j].place), a_end = a[i].place + a[i].count,
                  b_end = b[j].place + b[j].count, to = std::min(a_end, b_end);
    if (from < to) f(a[i].at + from - a[i].place, b[j].at + from - b[j].place, to - from);
    a_end < b_end ? ++i : ++j;
  }
}

}  // namespace

Json write_optimizer(const StatePieces& pieces, const fs::path& folder, int64_t rank, int64_t ranks) {
  const fs::path file = folder /
                        (ranks == 1 ? kWhole : fmt::format("optimizer-{:05}-of-{:05}.safetensors", rank + 1, ranks));
  NamedTensors named;
  Json parts = Json::object();
  for (const StatePiece& piece : pieces) {
    if (piece.replica) continue;
    named.emplace_back(piece.name, piece.values);
    if (piece.values.sizes() == piece.shape) continue;
    const ElementRange& of = piece.elements;
    Json& part = parts[piece.name] = {{"begin", of.begin}, {"shape", piece.shape}};
    if (of.width > 0) part.update({{"width", of.width}, {"column", of.column}, {"columns", of.columns}});
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
      ElementRange elements;
      if (pieces.contains(name)) {
        const Json& piece = pieces[name];
        const auto number = [&](const char* key) { return optional_field<int64_t>(piece, key, 0, path.string()); };
        elements = {require<int64_t>(piece, "begin", path.string()), number("width"), number("column"),
                    number("columns")};
        shape = require<std::vector<int64_t>>(piece, "shape", path.string());
        if (std::min({elements.begin, elements.width, elements.column}) < 0 ||
            elements.column + elements.width > elements.columns)
          fail(ErrorKind::kCorrupt, "{}: tensor '{}' is said to be columns {} to {} of {}", path.string(), name,
               elements.column, elements.column + elements.width, elements.columns);
      }
      parts_[name].push_back({&file, name, elements, std::move(shape)});
    }
  }
  if (files_.empty()) fail(ErrorKind::kCorrupt, "{}: holds no {}", folder.string(), kWhole);
}

void OptimizerFiles::verify(Part& part, const at::Tensor& values) {
  if (std::exchange(part.verified, true)) return;
  const std::string known = sum_name(part.file->path(), part.name);
  const std::string sum = model::checksums_of({{part.name, values}}).at(part.name);
  if (written_.contains(known) && written_[known] == sum) return;
  fail(ErrorKind::kCorrupt, "{}: tensor '{}' has the checksum {}, {} was written: the file is damaged",
       part.file->path().string(), part.name, sum, written_.contains(known) ? written_[known].dump() : "none");
}

void OptimizerFiles::read(const StatePiece& to) {
  const auto found = parts_.find(to.name);
  if (found == parts_.end()) {
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' of the optimizer is missing (was it saved with another dtype?)",
         folder_.string(), to.name);
  }
  const at::Tensor values = at::empty({to.values.numel()}, to.values.options().device(at::kCPU));
  const std::vector<Run> wanted = runs_of(to.elements, values.numel());
  int64_t filled = 0;
  std::vector<ElementRange> seen;  // every rank writes the count of steps
  for (Part& part : found->second) {
    const std::string file = part.file->path().string();
    if (part.shape != to.shape) {
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' is of [{}], expected [{}]", file, to.name, fmt::join(part.shape, ", "),
           fmt::join(to.shape, ", "));
    }
    if (std::ranges::find(seen, part.elements) != seen.end()) continue;
    seen.push_back(part.elements);
    const at::Tensor stored = part.file->tensor(part.name).contiguous();
    over_common(wanted, runs_of(part.elements, stored.numel()), [&](int64_t at, int64_t from, int64_t count) {
      if (stored.scalar_type() != values.scalar_type()) {
        fail(ErrorKind::kCorrupt, "{}: tensor '{}' is {}, expected {}", file, to.name,
             at::toString(stored.scalar_type()), at::toString(values.scalar_type()));
      }
      verify(part, stored);
      const size_t size = values.element_size();
      std::memcpy(static_cast<char*>(values.mutable_data_ptr()) + static_cast<size_t>(at) * size,
                  static_cast<const char*>(stored.const_data_ptr()) + static_cast<size_t>(from) * size,
                  static_cast<size_t>(count) * size);
      filled += count;
    });
  }
  if (filled != values.numel()) {
    fail(ErrorKind::kCorrupt, "{}: the {} files of the optimizer hold {} of {} elements of tensor '{}'",
         folder_.string(), files_.size(), filled, values.numel(), to.name);
  }
  at::Tensor target = to.values;
  target.copy_(values.view(target.sizes()));
}

}  // namespace tritonforge::train
