// The engine over a model whose matrices stay in a GGUF file's blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <set>

#include "engine/engine.h"
#include "model/model.h"
#include "unit/engine/tiny_model.h"
#include "weights/staged.h"

namespace tritonforge::engine {
namespace {

using ::testing::HasSubstr;

// Q8_0 blocks of numbers of about 0.05, a function of the seed.
kernels::BlockMatrix blocks(int64_t out, int64_t in, uint64_t seed) {
  at::manual_seed(seed);
  const auto* type = kernels::find_ggml_type(8);
  const int64_t count = out * in / type->block;
  at::Tensor bytes = at::randint(0, 256, {count, type->bytes}, at::TensorOptions(at::kByte));
  bytes.narrow(1, 0, 2).copy_((at::rand({count, 1}) * 1e-3).to(at::kHalf).view(at::kByte));
  const auto memory = std::make_shared<at::Tensor>(bytes);
  return {{{type, memory->const_data_ptr<uint8_t>(), out}}, in, out, memory};
}

std::unique_ptr<model::Model> stored_model() {
  model::ModelConfig c = tiny_config();
  c.hidden_size = 64;  // blocks are of 32 and more
  c.intermediate_size = 96;
  model::StoredMatrices stored{.embed_tokens = blocks(200, 64, 1), .lm_head = blocks(200, 64, 2)};
  for (uint64_t layer = 0; layer < 2; ++layer) {
    stored.layers.push_back({.qkv = blocks(128, 64, 10 + layer),
                             .o = blocks(64, 64, 20 + layer),
                             .gate_up = blocks(192, 64, 30 + layer),
                             .down = blocks(64, 96, 40 + layer)});
  }
  auto model = std::make_unique<model::Model>(c, std::move(stored));
  model->init_random(5);  // the norms
  return model;
}

EngineOptions options_with(int64_t threads, int64_t max_running) {
  EngineOptions options;
  options.model = "stored";
  options.threads = threads;
  options.max_running = max_running;
  options.kv_cache_tokens = 4096;
  return options;
}

struct Said {
  std::vector<int64_t> tokens;
  std::vector<float> log_probs;
  bool operator==(const Said&) const = default;
};

std::vector<Said> answers(const EngineOptions& options) {
  std::vector<std::promise<Said>> promises(12);
  Engine engine(options, stored_model(), nullptr);
  for (size_t i = 0; i < promises.size(); ++i) {
    Request request;
    for (size_t t = 0; t < 5 + 7 * i; ++t) request.prompt_ids.push_back(static_cast<int64_t>((i * 31 + t * 7) % 200));
    request.sampling.max_new_tokens = 24;
    request.sampling.ignore_eos = true;
    request.sampling.seed = i;
    request.on_output = [&promise = promises[i]](Output output) {
      promise.set_value({output.samples[0].output_ids, output.samples[0].log_probs});
    };
    engine.submit(std::move(request)).value();
  }
  std::vector<Said> said;
  for (auto& promise : promises) said.push_back(promise.get_future().get());
  return said;
}

TEST(StoredWeights, TokensAndLogProbsDependNeitherOnThreadsNorOnTheBatch) {
  const std::vector<Said> alone = answers(options_with(1, 1));
  for (const Said& said : alone) {
    ASSERT_EQ(said.tokens.size(), 24U);
    EXPECT_GT(std::set<int64_t>(said.tokens.begin(), said.tokens.end()).size(), 4U);
  }
  EXPECT_EQ(answers(options_with(1, 12)), alone);
  EXPECT_EQ(answers(options_with(2, 12)), alone);
  EXPECT_EQ(answers(options_with(3, 5)), alone);
}

TEST(StoredWeights, TakeNoUpdateAndSayWhatWould) {
  Engine engine(options_with(1, 4), stored_model(), nullptr);
  EXPECT_EQ(engine.info().dtype, "as_stored");
  const auto refused = engine.update_weights({.path = "/nowhere/weights.safetensors", .version = 3});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().what(), HasSubstr("start the engine with --dtype float32 or bfloat16"));
  EXPECT_EQ(engine.stats().weight_version, 0);
}

TEST(StoredWeights, ArePlannedWithTheBytesTheyHave) {
  Engine engine(options_with(1, 4), stored_model(), nullptr);
  const auto model = stored_model();
  EXPECT_EQ(engine.info().memory.weights, static_cast<int64_t>(model->arena().nbytes()) + model->stored_bytes());
  EXPECT_GT(model->stored_bytes(), 0);
}

TEST(StoredWeights, AreAGgufFilesAlone) {
  EngineOptions options;
  options.model = "models/tiny-base";
  options.dtype = "as_stored";
  try {
    const Engine engine(options);
    FAIL() << "a folder holds no blocks";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--dtype as_stored computes from a GGUF file on the CPU"));
  }
}

}  // namespace
}  // namespace tritonforge::engine
