// New weights from a trainer's process: the ways that they can take give the same bits, and what goes wrong on the way
// is one line and costs no weights that cannot be replaced.
#include "bench/weight_engine.h"
#include "bench/weight_trainer.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "gpu/fixture.h"
#include "weights/cuda_ipc.h"

namespace tritonforge::engine {
namespace {

class WeightsFromAnotherProcess : public gpu::GpuTest {
 protected:
  static EngineOptions options() { return gpu::small_engine_options(); }
  static Request request(int64_t tokens) {
    Request request;
    for (int64_t i = 0; i < 40; ++i) request.prompt_ids.push_back((i * 37 + i * i) % 1000);
    request.sampling.max_new_tokens = tokens;
    request.sampling.temperature = 0;
    return request;
  }
  static std::vector<int64_t> greedy(Engine& engine) {
    std::promise<std::vector<int64_t>> done;
    Request asked = request(24);
    asked.on_output = [&done](Output output) { done.set_value(output.samples[0].output_ids); };
    engine.submit(std::move(asked)).value();
    return done.get_future().get();
  }
  static std::unique_ptr<model::Model> other_model() { return gpu::small_model(2, kernels::open_device("cuda")); }
};

std::string line_of(const Result<InstalledWeights>& result) {
  EXPECT_FALSE(result.ok());
  if (result.ok()) return "";
  EXPECT_EQ(std::string(result.error().what()).find('\n'), std::string::npos);
  return result.error().what();
}

TEST_F(WeightsFromAnotherProcess, EveryWayGivesTheSameBits) {
  WeightTrainer trainer({"trainer"});
  Engine engine(options(), other_model(), nullptr);
  const auto before = greedy(engine);
  std::vector<std::vector<int64_t>> tokens;
  int64_t version = 0;
  for (const std::string way : {"device", "shm", "disk", "device"}) {
    const PublishedWeights published = trainer.publish(++version, way);
    EXPECT_EQ(published.device.has_value(), way == "device");
    const auto installed = engine.update_weights(published);
    ASSERT_TRUE(installed.ok()) << way << ": " << installed.error().what();
    EXPECT_EQ(installed->version, version);
    EXPECT_EQ(installed->checksums, published.checksums) << way;
    tokens.push_back(greedy(engine));
    EXPECT_NE(tokens.back(), before);
    EXPECT_EQ(tokens.back(), tokens.front()) << way;
    // In between other weights, so that each way brings all of them.
    trainer.change();
    ASSERT_TRUE(engine.update_weights(trainer.publish(++version, way)).ok());
    EXPECT_NE(greedy(engine), tokens.back()) << way;
    trainer.change();
  }
}

// As in a placed run: each process sees its own GPU and no other.
TEST_F(WeightsFromAnotherProcess, AnEngineMapsTheMemoryOfAGpuThatItDoesNotSee) {
  int devices = 0;
  gpu::check_cuda(api().device_count(&devices));
  if (devices < 2) GTEST_SKIP() << "one GPU: trainer and engine on one each need two";
  const auto gpu = [](int index) { return kernels::device_identity({at::kCUDA, static_cast<at::DeviceIndex>(index)}); };
  WeightTrainer trainer({"trainer"}, gpu(0));
  WeightEngine engine({"engine"}, gpu(1));
  const auto before = engine.tokens();
  std::vector<int64_t> first;
  for (int64_t version = 1; version <= 3; ++version) {
    PublishedWeights published = trainer.publish(version, "device");
    published.path.clear();  // no other way
    const auto installed = engine.update(published);
    ASSERT_TRUE(installed.ok()) << installed.error().what();
    EXPECT_EQ(installed->version, version);
    EXPECT_EQ(installed->checksums, published.checksums);
    const auto tokens = engine.tokens();
    EXPECT_NE(tokens, before);
    if (first.empty()) first = tokens;
    EXPECT_EQ(tokens == first, version != 2);
    trainer.change();
  }
  const auto stale = trainer.publish(4, "device");
  trainer.change();  // the file is written
  trainer.kill();
  PublishedWeights memory_only = stale;
  memory_only.path.clear();
  EXPECT_NE(line_of(engine.update(memory_only)).find("no peer access between the two"), std::string::npos);
  ASSERT_TRUE(engine.update(stale).ok());  // by the file
  fs::remove_all(stale.path.parent_path());
}

// An engine that sleeps takes its memory for them, and has no need of the old ones.
TEST_F(WeightsFromAnotherProcess, NewWeightsReachAnEngineThatSleeps) {
  WeightTrainer trainer({"trainer"});
  Engine engine(options(), other_model(), nullptr);
  ASSERT_TRUE(engine.update_weights(trainer.publish(1, "device")).ok());
  const auto tokens = greedy(engine);
  int64_t version = 1;
  for (const std::string way : {"device", "shm"}) {
    trainer.change();
    ASSERT_TRUE(engine.update_weights(trainer.publish(++version, way)).ok());
    EXPECT_NE(greedy(engine), tokens);
    engine.release_memory();
    trainer.change();
    const PublishedWeights published = trainer.publish(++version, way);
    PublishedWeights wrong = published;
    wrong.path.clear();
    if (wrong.device) {
      wrong.checksums.begin()->second = std::string(16, '0');
      EXPECT_FALSE(engine.update_weights(wrong).ok());
      EXPECT_TRUE(engine.stats().weights_released);
    }
    const auto installed = engine.update_weights(published);
    ASSERT_TRUE(installed.ok()) << installed.error().what();
    EXPECT_EQ(installed->checksums, published.checksums);
    EXPECT_FALSE(engine.stats().weights_released);
    engine.resume_memory();
    EXPECT_EQ(greedy(engine), tokens) << way;
  }
}

// The trainer goes on while an engine still holds the handle: its next step makes other weights of them.
TEST_F(WeightsFromAnotherProcess, WeightsThatHaveMovedOnAreRefusedAndTheFileHasTheOld) {
  WeightTrainer trainer({"trainer"});
  Engine engine(options(), other_model(), nullptr);
  PublishedWeights published = trainer.publish(1, "device");
  ASSERT_TRUE(engine.update_weights(published).ok());
  const auto tokens = greedy(engine);
  trainer.change();
  PublishedWeights memory_only = published;
  memory_only.path.clear();
  memory_only.version = 2;
  EXPECT_NE(line_of(engine.update_weights(memory_only)).find("the trainer's memory: tensor '"), std::string::npos);
  EXPECT_EQ(engine.stats().weight_version, 1);
  EXPECT_EQ(greedy(engine), tokens);
  ASSERT_TRUE(engine.update_weights(published).ok());
  EXPECT_EQ(greedy(engine), tokens);
}

TEST_F(WeightsFromAnotherProcess, AStaleOrForeignHandleIsRefusedInOneLine) {
  PublishedWeights published;
  {
    WeightTrainer trainer({"trainer"});
    published = trainer.publish(1, "device");
    trainer.change();  // the file is written
    trainer.kill();
  }
  Engine engine(options(), other_model(), nullptr);
  const auto tokens = greedy(engine);
  PublishedWeights wrong = published;
  wrong.path.clear();
  EXPECT_NE(line_of(engine.update_weights(wrong)).find("stale, since the trainer that published them is gone"),
            std::string::npos);
  wrong.device->handle = "00" + wrong.device->handle.substr(4);
  EXPECT_NE(line_of(engine.update_weights(wrong)).find("hex digits"), std::string::npos);
  wrong.device = published.device;
  wrong.device->host = "another";
  EXPECT_NE(line_of(engine.update_weights(wrong)).find("on another host"), std::string::npos);
  wrong.device = published.device;
  wrong.device->layout = "of another model";
  EXPECT_NE(line_of(engine.update_weights(wrong)).find("layout"), std::string::npos);
  wrong.device = published.device;
  wrong.checksums.clear();
  EXPECT_NE(line_of(engine.update_weights(wrong)).find("checksums"), std::string::npos);
  EXPECT_EQ(engine.stats().weight_version, 0);
  EXPECT_EQ(greedy(engine), tokens);
  // What the killed trainer left in shared memory is enough.
  ASSERT_TRUE(engine.update_weights(published).ok());
  EXPECT_NE(greedy(engine), tokens);
  fs::remove_all(published.path.parent_path());
}

// Killed once its memory is mapped: the update goes through, whole.
TEST_F(WeightsFromAnotherProcess, ATrainerKilledInTheMiddleLosesNothing) {
  WeightTrainer trainer({"trainer"});
  const PublishedWeights published = trainer.publish(1, "device");
  Core core(options(), other_model(), nullptr);
  const StagedWeights staged = weights::map_weights(core.model(), *published.device, published.checksums);
  trainer.kill();
  const at::InferenceMode inference;
  EXPECT_EQ(core.install(staged, 1).checksums, published.checksums);
  fs::remove_all(published.path.parent_path());
}

// A trainer that breaks the rule and trains while it is copied from: nothing is sampled from what came of it.
TEST_F(WeightsFromAnotherProcess, ACopyThatWasTornIsServedToNobody) {
  WeightTrainer trainer({"trainer"});
  const PublishedWeights published = trainer.publish(1, "device");
  Core core(options(), other_model(), nullptr);
  StagedWeights staged = weights::map_weights(core.model(), *published.device, published.checksums);
  staged.unread.clear();  // as if it changed after it was compared
  trainer.change();
  Output output;
  Request running = request(100);
  running.id = "running";
  running.on_output = [&output](Output part) { output.append(std::move(part)); };
  core.admit(std::move(core.arrival(std::move(running)).value()));
  const at::InferenceMode inference;
  core.step();
  EXPECT_THROW(core.install(staged, 1), Error);
  EXPECT_EQ(core.stats().weight_version, -1);
  EXPECT_EQ(output.samples.at(0).finish, FinishReason::kAbort);
  EXPECT_FALSE(core.has_work());
  core.install(weights::stage_weights(core.model(), published.path, published.checksums), 1);
  EXPECT_EQ(core.stats().weight_version, 1);
}

}  // namespace
}  // namespace tritonforge::engine
