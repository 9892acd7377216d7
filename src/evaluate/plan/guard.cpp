#include "evaluate/plan/guard.h"

#include <fmt/format.h>

#include "base/rng.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

constexpr int32_t kCanary = 0x7FFD7FFD;
constexpr int64_t kAlignment = 256;

// The words of a buffer's two canaries: before it, and after it and its padding.
std::array<at::Tensor, 2> canaries(const at::Tensor& block, int64_t begin, int64_t end) {
  return {block.narrow(0, 0, begin / 4), block.narrow(0, (end + 3) / 4, block.numel() - (end + 3) / 4)};
}

}  // namespace

at::Tensor GuardedMemory::move(const at::Tensor& tensor, bool copy) {
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  const int64_t shift = kAlignment * static_cast<int64_t>(Rng(Rng::derive(seed_, buffers_.size())).below(64));
  const int64_t begin = kGuardBytes + shift, end = begin + bytes;
  const at::Tensor block = at::full({(end + kGuardBytes + 3) / 4}, kCanary,
                                    at::TensorOptions(tensor.device()).dtype(at::kInt));
  buffers_.push_back({block, begin, end, ""});
  auto* base = static_cast<std::byte*>(block.data_ptr()) + begin;
  const auto flat = [&](void* data, at::ScalarType type, int64_t count, const at::Tensor& owner) {
    return at::for_blob(data, {count})
        .deleter([owner](void*) {})
        .options(at::TensorOptions(tensor.device()).dtype(type))
        .target_device(tensor.device())
        .make_tensor();
  };
  // The whole storage: views of it may follow.
  if (copy && bytes > 0)
    flat(base, at::kByte, bytes, block).copy_(flat(tensor.storage().mutable_data(), at::kByte, bytes, tensor));
  const at::Tensor moved = flat(base, tensor.scalar_type(), bytes / static_cast<int64_t>(tensor.element_size()), block)
                               .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  by_storage_[storage_of(moved)] = buffers_.size() - 1;
  return moved;
}

void GuardedMemory::name(const at::Tensor& tensor, const std::string& name) {
  if (const auto known = by_storage_.find(storage_of(tensor)); known != by_storage_.end())
    buffers_[known->second].name = name;
}

std::string GuardedMemory::damage_text() const {
  const auto damage = damaged();
  if (damage.empty()) return "";
  const std::string& name = buffers_[damage.front().buffer].name;
  const int64_t byte = damage.front().first_byte;
  return fmt::format("it wrote out of bounds of {}, {} bytes {} its begin",
                     name.empty() ? "a tensor that it was not given" : name, std::abs(byte),
                     byte < 0 ? "before" : "after");
}

std::vector<GuardedMemory::Damage> GuardedMemory::damaged() const {
  if (buffers_.empty()) return {};
  std::vector<at::Tensor> changed;
  for (const Buffer& buffer : buffers_) {
    for (const at::Tensor& canary : canaries(buffer.block, buffer.begin, buffer.end))
      changed.push_back(canary.ne(kCanary).any());
  }
  const at::Tensor found = at::stack(changed).cpu();
  std::vector<Damage> damage;
  for (size_t k = 0; k < buffers_.size(); ++k) {
    const Buffer& buffer = buffers_[k];
    const auto sides = canaries(buffer.block, buffer.begin, buffer.end);
    for (size_t side = 0; side < 2; ++side) {
      if (!found[static_cast<int64_t>(2 * k + side)].item<bool>()) continue;
      const int64_t word = sides[side].ne(kCanary).nonzero()[0][0].item<int64_t>();
      damage.push_back({k, (side == 0 ? 0 : (buffer.end + 3) / 4 * 4) + 4 * word - buffer.begin});
      break;
    }
  }
  return damage;
}

}  // namespace tritonforge::evaluate
