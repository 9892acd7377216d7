// Weights in rounds over NCCL: a trainer's rank on one GPU, an engine on the other, threads of one process. Skips where
// there is one GPU.
#include <future>

#include "base/error.h"
#include "gpu/fixture.h"
#include "kernels/device.h"
#include "unit/weights/publication.h"
#include "weights/relay.h"

namespace tritonforge::weights {
namespace {

class WeightsInRounds : public gpu::GpuTest {
 protected:
  void SetUp() override {
    gpu::GpuTest::SetUp();
    if (IsSkipped()) return;
    int devices = 0;
    gpu::check_cuda(gpu::open_cuda_library().device_count(&devices));
    if (devices < 2) GTEST_SKIP() << "one GPU: rounds over NCCL need two";
    trainer_ = std::make_unique<Publication>(SourceLayout{}, config(), kernels::open_device("cuda:0"), at::kBFloat16);
    engine_ = kernels::open_device("cuda:1");
  }
  // 200 MiB: several broadcasts.
  static model::ModelConfig config() {
    model::ModelConfig config = engine::tiny_config();
    config.hidden_size = 2048;
    config.intermediate_size = 6144;
    config.num_layers = 2;
    config.vocab_size = 4096;
    return config;
  }
  TensorChecksums received(const PublishedWeights& published, const std::string& id, at::Device device) {
    model::Model model(config(), at::kBFloat16, device);
    model.init_random(1);
    install(receive_weights(model, published, "run", id, Deadline::after(60), kStall), model.dtype());
    kernels::synchronize(device);
    return model::weight_checksums(model);
  }
  RelayPlace place_of(parallel::Meeting& meeting, const Round& round) {
    return {.meeting = meeting,
            .name = round.name + "-0",
            .place = round.place,
            .size = round.size,
            .host = "127.0.0.1",
            .stall_s = kStall};
  }
  Round take_place(const std::string& id) {
    const Caller desk(trainer_->place());
    while (true) {
      if (auto round = desk.ask({.id = id, .version = 1, .nccl = true, .have = {0}})) return *round;
    }
  }
  std::unique_ptr<Publication> trainer_;
  at::Device engine_ = at::kCPU;
};

TEST_F(WeightsInRounds, ReachAnEngineOnAnotherGpuAndOneOnACpu) {
  for (const int64_t version : {1, 2, 3}) {
    const PublishedWeights published = trainer_->publish(version, static_cast<uint64_t>(version));
    EXPECT_EQ(received(published, "gpu", engine_), published.checksums);
    EXPECT_EQ(received(published, "cpu", at::kCPU), published.checksums);
  }
}

// As ranks of tensor parallelism and stages send them, here all of one GPU: each source has a communicator of its own.
TEST_F(WeightsInRounds, OfSeveralSourcesReachAnEngineOnAnotherGpuAndOneOnACpu) {
  for (const SourceLayout layout : {SourceLayout{2, 1, 1}, SourceLayout{1, 2, 1}, SourceLayout{2, 2, 1}}) {
    SCOPED_TRACE(fmt::format("tp {} pp {}", layout.tp, layout.pp));
    Publication trainer(layout, config(), kernels::open_device("cuda:0"), at::kBFloat16);
    for (const int64_t version : {1, 2}) {
      const PublishedWeights published = trainer.publish(version, static_cast<uint64_t>(version));
      EXPECT_TRUE(published.group->nccl);
      EXPECT_EQ(received(published, "gpu", engine_), published.checksums);
      EXPECT_EQ(received(published, "cpu", at::kCPU), published.checksums);
    }
  }
}

// An engine without room for a second model takes them into the host's memory.
TEST_F(WeightsInRounds, ThroughTheHostsMemoryAreTheSame) {
  const PublishedWeights published = trainer_->publish(1, 5);
  const Round round = take_place("host");
  parallel::Meeting meeting(url_of(trainer_->place()), "run");
  const auto pieces = transfer_plan(config(), {}).at(0);
  const at::Tensor stream = at::zeros({stream_bytes(pieces, at::kBFloat16)}, at::kByte);
  int64_t came = 0;
  make_nccl_relay(place_of(meeting, round), engine_)->pass_all(stream, [&](int64_t there) { came = there; });
  EXPECT_EQ(came, stream.numel());
  ChecksumShares sums;
  add_checksums(pieces, piece_tensors(pieces, at::kBFloat16, stream), sums);
  EXPECT_EQ(checksums_of(sums), published.checksums);
}

TEST_F(WeightsInRounds, OneThatNeverComesToItsRoundIsWaitedForNoLongerThanAStall) {
  const PublishedWeights published = trainer_->publish(1, 5);
  take_place("hangs");
  EXPECT_EQ(received(published, "next", engine_), published.checksums);
}

TEST_F(WeightsInRounds, OneThatIsGoneHalfWayCostsARound) {
  const PublishedWeights published = trainer_->publish(1, 5);
  const Round round = take_place("dies");
  {
    parallel::Meeting meeting(url_of(trainer_->place()), "run");
    const auto relay = make_nccl_relay(place_of(meeting, round), engine_);
    struct Dies {};
    const auto arrived = [](int64_t) { throw Dies(); };
    const auto pieces = transfer_plan(config(), {}).at(0);
    EXPECT_THROW(relay->pass_all(at::empty({stream_bytes(pieces, at::kBFloat16)}, at::kByte), arrived), Dies);
  }
  EXPECT_EQ(received(published, "next", engine_), published.checksums);
}

}  // namespace
}  // namespace tritonforge::weights
