// What GpuRunner has on the device and of the host, and the blocks that move between them.
#include <c10/core/CachingDeviceAllocator.h>

#include <numeric>

#include "engine/gpu_runner.h"

namespace tritonforge::engine {

using gpu::check_cuda;
using gpu::DeviceMemory;
using gpu::GpuRange;

void GpuRunner::take_memory() {
  try {
    take_buffers();
    take_cache();
  } catch (...) {
    release_memory();
    throw;
  }
}

void GpuRunner::take_buffers() {
  check_cuda(api_.set_device(device_));
  memory_ = DeviceMemory(static_cast<size_t>(buffers_.bytes));
  if (ranks_ != nullptr) ranks_->buffers(rank_) = at<std::byte>(0);
  gemm_.use_workspace(at<void>(buffers_.gemm));
  // Activations begin as small numbers: padded rows are computed too, and products are timed on them.
  const auto fill = [&](int64_t begin, int64_t end, int byte) {
    check_cuda(api_.fill(at<void>(begin), byte, static_cast<size_t>(end - begin), stream_));
  };
  fill(buffers_.x, buffers_.activations_end, 0x3C);  // 0.0115 each
  fill(buffers_.results, buffers_.zeros_end, 0);
  check_cuda(api_.rope_table(at<float>(buffers_.rope), model_.inv_freq().const_data_ptr<float>(), max_context_,
                             config_.head_dim, stream_));
  std::vector<int32_t> each_row(static_cast<size_t>(most_draws_) + 1);
  std::iota(each_row.begin(), each_row.end(), 0);
  if (batch_invariant_)
    check_cuda(api_.copy(at<void>(buffers_.each_row), each_row.data(), each_row.size() * sizeof(int32_t), stream_));
  check_cuda(api_.stream_synchronize(stream_));  // before another rank writes there
}

GpuRunner::PageBytes GpuRunner::page_bytes(const model::ModelConfig& config, bool fp8) {
  const int64_t rows = kBlockSize * config.num_kv_heads;
  return {.keys = rows * config.head_dim * (fp8 ? 1 : 2), .scales = fp8 ? 2 * rows : 0};
}

void GpuRunner::take_cache() {
  const bool fp8 = widened_pages_ > 0;
  const int64_t layer_bytes = blocks_ * page_.both(), keys = blocks_ * page_.keys;
  cache_memory_ = DeviceMemory(static_cast<size_t>(config_.num_layers * layer_bytes));
  auto* next = cache_memory_.as<uint8_t>();
  for (int64_t layer = 0; layer < config_.num_layers; ++layer, next += layer_bytes) {
    cache_.push_back({next, next + keys, fp8 ? next + 2 * keys : nullptr});
  }
  auto* widened = at<std::byte>(buffers_.widened);
  widened_ = {widened, widened + widened_pages_ * page_bytes(config_, /*fp8=*/false).keys};
}

void GpuRunner::move_blocks(std::span<const BlockMove> moves) {
  const GpuRange range("move blocks");
  check_cuda(api_.set_device(device_));
  gpu::MoveBlocksArgs args{.first = cache_.front(),
                           .layers = config_.num_layers,
                           .layer_bytes = blocks_ * page_.both(),
                           .page_bytes = page_.keys,
                           .scale_bytes = page_.scales,
                           .host = host_cache_.as<uint8_t>(),
                           .to_host = false,
                           .count = 0,
                           .moves = {}};
  const auto queue = [&] {
    check_cuda(api_.move_blocks(&args, stream_));
    args.count = 0;
  };
  for (const auto& [block, place, to_host] : moves) {  // those of one direction that follow each other at once
    if (args.count == gpu::kBlocksMoved || to_host != args.to_host) queue();
    args.to_host = to_host;
    args.moves[args.count++] = {block, place};
  }
  queue();
}

void GpuRunner::release_memory() {
  weights_move();
  cache_.clear();
  cache_memory_ = DeviceMemory();
  memory_ = DeviceMemory();
  at::getDeviceAllocator(model_.device().type())->emptyCache();  // of steps whose logits were read
}

void GpuRunner::weights_move() {
  check_cuda(api_.set_device(device_));
  check_cuda(api_.stream_synchronize(stream_));
  graphs_.clear();  // they know where everything lies
}

}  // namespace tritonforge::engine
