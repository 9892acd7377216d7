#include "evaluate/plan/tensors.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tritonforge::evaluate {

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat64: return at::kDouble;
    case Dtype::kFloat32: return at::kFloat;
    case Dtype::kFloat16: return at::kHalf;
    case Dtype::kBFloat16: return at::kBFloat16;
    case Dtype::kInt64: return at::kLong;
    case Dtype::kInt32: return at::kInt;
    case Dtype::kInt16: return at::kShort;
    case Dtype::kInt8: return at::kChar;
    case Dtype::kUint8: return at::kByte;
    case Dtype::kBool: return at::kBool;
  }
  return at::kFloat;
}

std::optional<Dtype> dtype_of(at::ScalarType type) {
  for (int k = 0; k <= static_cast<int>(Dtype::kBool); ++k) {
    if (scalar_type(static_cast<Dtype>(k)) == type) return static_cast<Dtype>(k);
  }
  return std::nullopt;
}

at::Tensor tensor_of(const TensorView& view, at::Device device) {
  std::vector<int64_t> strides(view.shape.size());
  int64_t step = 1;
  for (size_t i = view.order.size(); i-- > 0;) {
    strides[static_cast<size_t>(view.order[i])] = step;
    step *= view.shape[static_cast<size_t>(view.order[i])];
  }
  at::Tensor out = at::empty_strided(view.shape, strides, scalar_type(view.dtype));
  if (!view.bytes.empty()) std::memcpy(out.data_ptr(), view.bytes.data(), view.bytes.size());
  return device.is_cpu() ? out : out.to(device);
}

ReplayedTensor bytes_of(const at::Tensor& given) {
  const auto dtype = dtype_of(given.scalar_type());
  if (!dtype || given.layout() != at::kStrided)
    fail(ErrorKind::kUnsupported, "replay: an output of dtype {}", c10::toString(given.scalar_type()));
  const at::Tensor tensor = given.resolve_conj().resolve_neg().contiguous().cpu();
  std::vector<int64_t> order(static_cast<size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), 0);
  ReplayedTensor out;
  out.bytes.resize(tensor.nbytes());
  if (!out.bytes.empty()) std::memcpy(out.bytes.data(), tensor.data_ptr(), out.bytes.size());
  out.described = {{"dtype", std::string(name_of(*dtype))},
                   {"shape", tensor.sizes().vec()},
                   {"order", order},
                   {"bytes", out.bytes.size()}};
  return out;
}

void poison(const at::Tensor& tensor) {
  if (tensor.is_floating_point()) tensor.fill_(std::numeric_limits<double>::quiet_NaN());
  else if (tensor.scalar_type() == at::kBool) tensor.fill_(true);
  else if (tensor.scalar_type() == at::kByte) tensor.fill_(254);
  else if (tensor.scalar_type() == at::kChar) tensor.fill_(126);
  else if (tensor.scalar_type() == at::kShort) tensor.fill_(32766);
  else if (tensor.scalar_type() == at::kInt) tensor.fill_(int64_t{2147483646});
  else if (tensor.scalar_type() == at::kLong) tensor.fill_(std::numeric_limits<int64_t>::max() - 1);
}

const void* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (storage_of(a) != storage_of(b)) return false;
  const at::MemOverlapStatus known = at::get_overlap_status(a, b);
  if (known != at::MemOverlapStatus::TooHard) return known != at::MemOverlapStatus::No;
  const int64_t unit = std::min(a.element_size(), b.element_size());
  const int64_t units = static_cast<int64_t>(a.storage().nbytes()) / unit;
  const at::Tensor marks = at::zeros({units}, a.options().dtype(at::kBool));
  const auto marks_of = [&](const at::Tensor& tensor) {
    const int64_t each = tensor.element_size() / unit;
    std::vector<int64_t> sizes{each}, strides{1};
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      sizes.push_back(tensor.stride(d) == 0 ? std::min<int64_t>(tensor.size(d), 1) : tensor.size(d));
      strides.push_back(tensor.stride(d) * each);
    }
    return marks.as_strided(sizes, strides, tensor.storage_offset() * each);
  };
  marks_of(a).fill_(true);
  return marks_of(b).any().item<bool>();
}

at::Tensor storage_bytes(const at::Tensor& tensor) {
  return at::for_blob(tensor.storage().mutable_data(), {static_cast<int64_t>(tensor.storage().nbytes())})
      .options(tensor.options().dtype(at::kByte))
      .target_device(tensor.device())
      .make_tensor();
}

void wipe(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.storage().nbytes() > 0) storage_bytes(tensor).fill_(255);
}

}  // namespace tritonforge::evaluate
