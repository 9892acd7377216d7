// The format: 8 bytes little-endian length of the header, a JSON header {name: {dtype, shape, data_offsets}}, then the
// data without holes. https://github.com/huggingface/safetensors#format
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "kernels/tensor_checksum.h"
#include "model/weights.h"

namespace tritonforge::model {
namespace {

constexpr size_t kPage = 4096;
constexpr const char* kMetadata = "__metadata__";
constexpr uint64_t kMaxHeader = 100'000'000;  // as the reference implementation

struct DtypeName {
  const char* name;
  at::ScalarType dtype;
};
constexpr std::array<DtypeName, 12> kDtypes{{{"F64", at::kDouble},
                                             {"F32", at::kFloat},
                                             {"F16", at::kHalf},
                                             {"BF16", at::kBFloat16},
                                             {"I64", at::kLong},
                                             {"I32", at::kInt},
                                             {"I16", at::kShort},
                                             {"I8", at::kChar},
                                             {"U8", at::kByte},
                                             {"BOOL", at::kBool},
                                             {"F8_E4M3", at::kFloat8_e4m3fn},
                                             {"F8_E5M2", at::kFloat8_e5m2}}};

const char* name_in_file(at::ScalarType dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) return name;
  }
  fail(ErrorKind::kUnsupported, "safetensors cannot hold dtype {}", c10::toString(dtype));
}

at::ScalarType dtype_in_file(const Json& entry, const std::string& where) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) fail(ErrorKind::kCorrupt, "{}: has no dtype", where);
  const auto& text = found->get_ref<const std::string&>();
  std::vector<std::string> names;
  for (const auto& [name, dtype] : kDtypes) {
    if (text == name) return dtype;
    names.emplace_back(name);
  }
  fail(ErrorKind::kUnsupported, "{}: dtype '{}' is not supported (known: {})", where, text.substr(0, 40),
       fmt::join(names, ", "));
}

std::vector<uint64_t> unsigned_list(const Json& entry, const char* key, const std::string& where) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) fail(ErrorKind::kCorrupt, "{}: has no list '{}'", where, key);
  std::vector<uint64_t> values;
  for (const auto& value : *found) {
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(ErrorKind::kCorrupt, "{}: '{}' holds {}, expected a size", where, key, value.dump().substr(0, 40));
    }
    values.push_back(value.get<uint64_t>());
  }
  return values;
}

// Closes and removes what was not published.
class PendingFile {
 public:
  explicit PendingFile(const fs::path& target) : target_(target), name_(target.string() + ".tmp-XXXXXX") {
    fd_ = ::mkostemp(name_.data(), O_CLOEXEC);
    if (fd_ < 0) fail(ErrorKind::kUnavailable, "cannot create {}: {}", name_, std::strerror(errno));
  }
  ~PendingFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!published_) ::unlink(name_.c_str());
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, size_t size) {
    const char* at = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(fd_, at, std::min<size_t>(size, size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(ErrorKind::kUnavailable, "cannot write {}: {}", target_.string(), std::strerror(errno));
      at += written;
      size -= static_cast<size_t>(written);
    }
  }
  void publish() {
    if (::fchmod(fd_, 0644) != 0 || ::fsync(fd_) != 0 || ::rename(name_.c_str(), target_.c_str()) != 0) {
      fail(ErrorKind::kUnavailable, "cannot write {}: {}", target_.string(), std::strerror(errno));
    }
    published_ = true;
    fsync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
  }

 private:
  fs::path target_;
  std::string name_;
  int fd_ = -1;
  bool published_ = false;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path) {
  const auto file = std::make_shared<MappedFile>(path);
  bytes_ = file->bytes();
  owner_ = file;
  parse();
}

SafetensorsFile::SafetensorsFile(std::string name, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : path_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {
  parse();
}

namespace {

// Eight bytes of length, then the header: JSON of that length.
std::pair<Json, uint64_t> read_header(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() < 8)
    fail(ErrorKind::kCorrupt, "{}: truncated: {} bytes, a safetensors file has at least 8", where, bytes.size());
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), 8);
  if (size > kMaxHeader)
    fail(ErrorKind::kCorrupt, "{}: header of {} bytes, expected at most {} (not a safetensors file?)", where, size,
         kMaxHeader);
  if (size > bytes.size() - 8) {
    fail(ErrorKind::kCorrupt, "{}: truncated inside the header: expected {} bytes, found {}", where, size + 8,
         bytes.size());
  }
  Json header = parse_json_or_discard({reinterpret_cast<const char*>(bytes.data()) + 8, size});
  if (header.is_discarded()) fail(ErrorKind::kCorrupt, "{}: the header is not valid JSON", where);
  if (!header.is_object()) fail(ErrorKind::kCorrupt, "{}: the header is not a JSON object", where);
  return {std::move(header), size};
}

std::map<std::string, std::string> metadata_of(const Json& header, const std::string& where) {
  std::map<std::string, std::string> metadata;
  const auto found = header.find(kMetadata);
  if (found == header.end()) return metadata;
  if (!found->is_object()) fail(ErrorKind::kCorrupt, "{}: __metadata__ is not an object", where);
  for (const auto& [key, text] : found->items()) {
    if (!text.is_string()) fail(ErrorKind::kCorrupt, "{}: metadata '{}' is not text", where, key);
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

// Dtype, shape and byte range, which must agree with each other and with the file.
SafetensorsFile::Entry SafetensorsFile::read_entry(const Json& value, uint64_t data_size, const std::string& where) {
  if (!value.is_object()) fail(ErrorKind::kCorrupt, "{}: is not an object", where);
  Entry entry;
  entry.dtype = dtype_in_file(value, where);
  uint64_t expected = c10::elementSize(entry.dtype);
  for (const uint64_t size : unsigned_list(value, "shape", where)) {
    if (__builtin_mul_overflow(expected, size, &expected) ||
        expected > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(ErrorKind::kCorrupt, "{}: shape is too large", where);
    }
    entry.shape.push_back(static_cast<int64_t>(size));
  }
  const auto offsets = unsigned_list(value, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    fail(ErrorKind::kCorrupt, "{}: data_offsets must be [begin, end]", where);
  if (offsets[1] > data_size) {
    fail(ErrorKind::kCorrupt, "{}: ends at byte {} of the data, but only {} are there (truncated?)", where, offsets[1],
         data_size);
  }
  if (offsets[1] - offsets[0] != expected) {
    fail(ErrorKind::kCorrupt, "{}: expected {} bytes for {} of [{}], found {}", where, expected,
         name_in_file(entry.dtype), fmt::join(entry.shape, ", "), offsets[1] - offsets[0]);
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

// Together the entries cover the data once: no overlap, no hole, nothing behind.
void SafetensorsFile::check_cover(uint64_t data_size) const {
  std::vector<decltype(entries_)::const_pointer> in_order;
  for (const auto& entry : entries_) in_order.push_back(&entry);
  const auto range = [](const auto* entry) { return std::tie(entry->second.begin, entry->second.end); };
  std::ranges::sort(in_order, {}, range);
  const std::string where = path_.string();
  uint64_t covered = 0;
  for (const auto* one : in_order) {
    const auto& [name, entry] = *one;
    if (entry.begin != covered) {
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' begins at byte {}, expected {} ({})", where, name, entry.begin,
           covered, entry.begin < covered ? "it overlaps the one before" : "a hole in the data");
    }
    covered = entry.end;
  }
  if (covered != data_size)
    fail(ErrorKind::kCorrupt, "{}: the tensors end at byte {} of the data, but the file has {}", where, covered,
         data_size);
}

void SafetensorsFile::parse() {
  const std::string where = path_.string();
  const auto [header, header_size] = read_header(bytes_, where);
  data_start_ = 8 + header_size;
  const uint64_t data_size = bytes_.size() - data_start_;
  metadata_ = metadata_of(header, where);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) continue;
    entries_.emplace(name, read_entry(value, data_size, fmt::format("{}: tensor '{}'", where, name)));
  }
  check_cover(data_size);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' is missing{}", path_.string(), name, nearest_hint(name, names()));
  return found->second;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const Entry& found = entry(name);
  const auto bytes = bytes_.subspan(data_start_ + found.begin, found.end - found.begin);
  if (bytes.empty()) return at::empty(found.shape, found.dtype);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % c10::elementSize(found.dtype) != 0) {  // a header that was not padded
    at::Tensor copy = at::empty(found.shape, found.dtype);
    std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
    return copy;
  }
  return at::from_blob(const_cast<std::byte*>(bytes.data()), found.shape, at::TensorOptions().dtype(found.dtype));
}

SafetensorsLayout lay_out_safetensors(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  // Wide elements first, so that every tensor is aligned to its element size.
  SafetensorsLayout layout{.tensors = tensors, .begins = {}, .header = {}};
  std::stable_sort(layout.tensors.begin(), layout.tensors.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : layout.tensors) {
    TF_CHECK(tensor.defined() && !header.contains(name), "tensor '{}' is undefined or listed twice", name);
    const uint64_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", name_in_file(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    layout.begins.push_back(offset);
    offset = end;
  }
  std::string text = header.dump();
  text.resize((8 + text.size() + kPage - 1) / kPage * kPage - 8, ' ');
  const uint64_t size = text.size();
  layout.header.assign(reinterpret_cast<const char*>(&size), 8);
  layout.header += text;
  for (uint64_t& begin : layout.begins) begin += layout.header.size();
  layout.bytes = layout.header.size() + offset;
  return layout;
}

std::map<std::string, std::string> save_safetensors(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                                                    const fs::path& file,
                                                    const std::map<std::string, std::string>& metadata) {
  return save_safetensors(lay_out_safetensors(tensors, metadata), file);
}

std::map<std::string, std::string> save_safetensors(const SafetensorsLayout& layout, const fs::path& file) {
  PendingFile out(file);
  out.write(layout.header.data(), layout.header.size());
  std::map<std::string, std::string> checksums;
  for (const auto& [name, tensor] : layout.tensors) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    out.write(bytes.const_data_ptr(), bytes.nbytes());
    checksums[name] = kernels::tensor_checksums({&bytes, 1}).front();
  }
  out.publish();
  return checksums;
}

}  // namespace tritonforge::model
