// Blocks of the KV cache on their way to the host and back.
#include "gpu/fixture.h"
#include "kernels/gpu/handles.h"

namespace tritonforge::gpu {
namespace {

constexpr int64_t kLayers = 3, kBlocks = 400, kPlaces = 300, kMoved = kBlocksMoved;

class MoveBlocks : public GpuTest {
 protected:
  static at::Tensor random_bytes(at::IntArrayRef shape) { return at::randint(0, 256, shape, at::kByte); }

  // Layers of keys, values and scales one after another, against the same on the CPU.
  void compare(int64_t page_bytes, int64_t scale_bytes) {
    const int64_t kept = 2 * page_bytes + scale_bytes;
    const at::Tensor cache = random_bytes({kLayers, kBlocks * kept}), places = random_bytes({kPlaces, kLayers, kept});
    const Buffer device = upload(cache);
    const PinnedMemory host(static_cast<size_t>(places.numel()));
    std::memcpy(host.as<uint8_t>(), places.const_data_ptr(), host.size());
    auto* first = device.as<uint8_t>();
    MoveBlocksArgs args{
        .first = {first, first + kBlocks * page_bytes, scale_bytes > 0 ? first + 2 * kBlocks * page_bytes : nullptr},
        .layers = kLayers,
        .layer_bytes = kBlocks * kept,
        .page_bytes = page_bytes,
        .scale_bytes = scale_bytes,
        .host = host.as<uint8_t>(),
        .to_host = true,
        .count = kMoved,
        .moves = {}};
    const at::Tensor blocks = at::randperm(kBlocks), to = at::randperm(kPlaces), back = at::randperm(kBlocks);
    const auto queue = [&](const at::Tensor& of_cache, bool to_host) {
      args.to_host = to_host;
      for (int64_t i = 0; i < kMoved; ++i) args.moves[i] = {of_cache[i].item<int32_t>(), to[i].item<int32_t>()};
      check_cuda(api().move_blocks(&args, stream));
    };
    queue(blocks, /*to_host=*/true);  // each into a place, and from there into another block
    queue(back, /*to_host=*/false);

    at::Tensor wanted = cache.clone(), kept_on_host = places.clone();
    const auto part = [&](const at::Tensor& of, int64_t begin, int64_t bytes) {  // [layers, blocks, bytes]
      return of.slice(1, begin, begin + kBlocks * bytes).view({kLayers, kBlocks, bytes});
    };
    const auto moved = [](const at::Tensor& order) { return order.slice(0, 0, kMoved); };
    int64_t in_place = 0, in_layer = 0;
    for (const int64_t bytes : {page_bytes, page_bytes, scale_bytes}) {
      const at::Tensor sent = part(cache, in_layer, bytes).index_select(1, moved(blocks));
      part(wanted, in_layer, bytes).index_copy_(1, moved(back), sent);
      kept_on_host.slice(2, in_place, in_place + bytes).index_copy_(0, moved(to), sent.transpose(0, 1));
      in_place += bytes;
      in_layer += kBlocks * bytes;
    }
    EXPECT_TRUE(at::equal(download(device, cache.sizes(), at::kByte), wanted));
    EXPECT_TRUE(at::equal(at::from_blob(host.as<uint8_t>(), places.sizes(), at::kByte), kept_on_host));
  }
};

TEST_F(MoveBlocks, TakeAllTheirBytesAlong) {
  compare(16 * 8 * 128 * 2, 0);
  compare(16 * 2 * 64 * 2, 0);
  compare(16 * 8 * 128, 2 * 16 * 8);  // FP8
  compare(16 * 1 * 64, 2 * 16 * 1);
}

TEST_F(MoveBlocks, MoreThanAreMovedAtOnceAreRefused) {
  const MoveBlocksArgs args{.first = {},
                            .layers = 1,
                            .layer_bytes = 0,
                            .page_bytes = 16,
                            .scale_bytes = 0,
                            .host = nullptr,
                            .to_host = true,
                            .count = kBlocksMoved + 1,
                            .moves = {}};
  EXPECT_ANY_THROW(check_cuda(api().move_blocks(&args, stream)));
}

}  // namespace
}  // namespace tritonforge::gpu
