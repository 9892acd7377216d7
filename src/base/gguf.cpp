#include "base/gguf.h"

#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.h"

namespace tritonforge {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF fields are read as they lie");

// The value types of the format, by number.
// clang-format off
enum ValueType : uint32_t {
  kUint8, kInt8, kUint16, kInt16, kUint32, kInt32, kFloat32, kBool, kString, kArray, kUint64, kInt64, kFloat64,
  kValueTypes
};
// clang-format on

constexpr uint32_t kMaxDimensions = 8;
constexpr uint64_t kDefaultAlignment = 32;

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const fs::path& path) : bytes_(bytes), path_(path) {}

  template <typename T>
  T take(std::string_view what) {
    T value;
    std::memcpy(&value, raw(sizeof value, what), sizeof value);
    return value;
  }
  std::string text(std::string_view what) {
    const auto length = take<uint64_t>(what);
    const std::byte* data = raw(length, what);
    return std::string(reinterpret_cast<const char*>(data), length);
  }
  // A count of things of at least `each` bytes: one that cannot fit is refused before anything is allocated.
  uint64_t count(uint64_t each, std::string_view what) {
    const auto value = take<uint64_t>(what);
    if (value > (bytes_.size() - at_) / each) corrupt("{} says {}, more than the file can hold", what, value);
    return value;
  }
  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kCorrupt, "{}: byte {}: {}", path_.string(), at_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kUnsupported, "{}: byte {}: {}", path_.string(), at_,
         fmt::format(format, std::forward<Args>(args)...));
  }
  size_t at() const { return at_; }
  size_t size() const { return bytes_.size(); }

 private:
  const std::byte* raw(uint64_t size, std::string_view what) {
    if (size > bytes_.size() - at_) {
      corrupt("{} needs {} bytes and the file ends after {}", what, size, bytes_.size() - at_);
    }
    const std::byte* data = bytes_.data() + at_;
    at_ += size;
    return data;
  }

  std::span<const std::byte> bytes_;
  const fs::path& path_;
  size_t at_ = 0;
};

int64_t read_integer(Reader& in, uint32_t type, const std::string& key) {
  switch (type) {
    case kUint8: return in.take<uint8_t>(key);
    case kInt8: return in.take<int8_t>(key);
    case kUint16: return in.take<uint16_t>(key);
    case kInt16: return in.take<int16_t>(key);
    case kUint32: return in.take<uint32_t>(key);
    case kInt32: return in.take<int32_t>(key);
    case kInt64: return in.take<int64_t>(key);
    default: break;
  }
  const auto value = in.take<uint64_t>(key);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    in.unsupported("'{}' = {} is above the largest signed 64-bit integer", key, value);
  }
  return static_cast<int64_t>(value);
}

bool read_boolean(Reader& in, const std::string& key) {
  const auto value = in.take<uint8_t>(key);
  if (value > 1) in.corrupt("'{}' is a truth value of {}", key, value);
  return value != 0;
}

double read_number(Reader& in, uint32_t type, const std::string& key) {
  return type == kFloat32 ? static_cast<double>(in.take<float>(key)) : in.take<double>(key);
}

bool is_number(uint32_t type) { return type == kFloat32 || type == kFloat64; }

uint64_t smallest_size(uint32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool: return 1;
    case kUint16:
    case kInt16: return 2;
    case kUint32:
    case kInt32:
    case kFloat32: return 4;
    default: return 8;
  }
}

GgufArray read_array(Reader& in, const std::string& key) {
  const auto type = in.take<uint32_t>(key);
  if (type >= kValueTypes) in.corrupt("'{}' is an array of unknown type {}", key, type);
  if (type == kArray) in.unsupported("'{}' is an array of arrays", key);
  const uint64_t count = in.count(smallest_size(type), key);
  if (type == kString) {
    std::vector<std::string> texts;
    texts.reserve(count);
    for (uint64_t i = 0; i < count; ++i) texts.push_back(in.text(key));
    return texts;
  }
  if (is_number(type)) {
    std::vector<double> numbers(count);
    for (auto& number : numbers) number = read_number(in, type, key);
    return numbers;
  }
  std::vector<int64_t> integers(count);
  for (auto& integer : integers) integer = type == kBool ? read_boolean(in, key) : read_integer(in, type, key);
  return integers;
}

GgufValue read_value(Reader& in, const std::string& key) {
  const auto type = in.take<uint32_t>(key);
  if (type >= kValueTypes) in.corrupt("'{}' has the unknown type {}", key, type);
  if (type == kArray) return read_array(in, key);
  if (type == kString) return in.text(key);
  if (type == kBool) return read_boolean(in, key);
  if (is_number(type)) return read_number(in, type, key);
  return read_integer(in, type, key);
}

GgufTensor read_tensor(Reader& in) {
  GgufTensor tensor;
  tensor.name = in.text("a tensor's name");
  const auto dimensions = in.take<uint32_t>(tensor.name);
  if (dimensions > kMaxDimensions) in.corrupt("tensor '{}' has {} dimensions", tensor.name, dimensions);
  tensor.shape.resize(dimensions);
  int64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = in.take<uint64_t>(tensor.name);
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(extent), &elements)) {
      in.corrupt("tensor '{}' has an impossible extent of {}", tensor.name, extent);
    }
    tensor.shape[dimensions - 1 - i] = static_cast<int64_t>(extent);
  }
  tensor.type = in.take<uint32_t>(tensor.name);
  tensor.offset = in.take<uint64_t>(tensor.name);
  return tensor;
}

template <typename T, typename Metadata>
const T& typed(const Metadata& metadata, const std::string& key, const fs::path& path, const char* expected) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) fail(ErrorKind::kCorrupt, "{}: metadata '{}' is missing", path.string(), key);
  const T* value = std::get_if<T>(&found->second);
  if (!value) fail(ErrorKind::kCorrupt, "{}: metadata '{}' is not {}", path.string(), key, expected);
  return *value;
}

template <typename T, typename Metadata>
const T& typed_array(const Metadata& metadata, const std::string& key, const fs::path& path, const char* expected) {
  const T* value = std::get_if<T>(&typed<GgufArray>(metadata, key, path, expected));
  if (!value) fail(ErrorKind::kCorrupt, "{}: metadata '{}' is not {}", path.string(), key, expected);
  return *value;
}

}  // namespace

GgufFile::GgufFile(const fs::path& path) : file_(path) {
  Reader in(file_.bytes(), file_.path());
  const auto magic = in.take<uint32_t>("the magic number");
  if (magic != 0x46554747) in.corrupt("not a GGUF file (it begins with {:#010x})", magic);
  const auto version = in.take<uint32_t>("the version");
  if (version != 2 && version != 3) in.unsupported("GGUF version {} (2 and 3 are understood)", version);
  const uint64_t tensor_count = in.count(/*each=*/24, "the tensor count");
  const uint64_t key_count = in.count(/*each=*/13, "the metadata count");

  for (uint64_t i = 0; i < key_count; ++i) {
    std::string key = in.text("a metadata key");
    GgufValue value = read_value(in, key);
    if (!metadata_.emplace(key, std::move(value)).second) in.corrupt("metadata '{}' comes twice", key);
  }
  uint64_t alignment = kDefaultAlignment;
  if (has("general.alignment")) {
    const int64_t wanted = integer("general.alignment");
    if (wanted <= 0 || wanted > (1 << 30) || !std::has_single_bit(static_cast<uint64_t>(wanted))) {
      in.corrupt("general.alignment is {}, not a power of two", wanted);
    }
    alignment = static_cast<uint64_t>(wanted);
  }

  std::set<std::string_view> names;
  tensors_.reserve(tensor_count);
  for (uint64_t i = 0; i < tensor_count; ++i) {
    tensors_.push_back(read_tensor(in));
    const GgufTensor& tensor = tensors_.back();
    if (!names.insert(tensor.name).second) in.corrupt("tensor '{}' comes twice", tensor.name);
    if (tensor.offset % alignment != 0) {
      in.corrupt("tensor '{}' lies at offset {}, not a multiple of {}", tensor.name, tensor.offset, alignment);
    }
  }
  data_start_ = (in.at() + alignment - 1) / alignment * alignment;
  if (tensor_count > 0 && data_start_ > in.size()) in.corrupt("the file ends before its tensor data");
}

int64_t GgufFile::integer(const std::string& key) const { return typed<int64_t>(metadata_, key, path(), "an integer"); }

double GgufFile::number(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found != metadata_.end()) {
    if (const auto* whole = std::get_if<int64_t>(&found->second)) return static_cast<double>(*whole);
  }
  return typed<double>(metadata_, key, path(), "a number");
}

bool GgufFile::boolean(const std::string& key) const { return typed<bool>(metadata_, key, path(), "a truth value"); }

const std::string& GgufFile::text(const std::string& key) const {
  return typed<std::string>(metadata_, key, path(), "a text");
}

const std::vector<std::string>& GgufFile::texts(const std::string& key) const {
  return typed_array<std::vector<std::string>>(metadata_, key, path(), "an array of texts");
}

const std::vector<int64_t>& GgufFile::integers(const std::string& key) const {
  return typed_array<std::vector<int64_t>>(metadata_, key, path(), "an array of integers");
}

std::span<const std::byte> GgufFile::data(const GgufTensor& tensor, size_t size) const {
  const auto bytes = file_.bytes();
  if (data_start_ > bytes.size() || tensor.offset > bytes.size() - data_start_ ||
      size > bytes.size() - data_start_ - tensor.offset) {
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' needs bytes {} to {} and the file has {}", path().string(), tensor.name,
         data_start_ + tensor.offset, data_start_ + tensor.offset + size, bytes.size());
  }
  return bytes.subspan(data_start_ + tensor.offset, size);
}

}  // namespace tritonforge
