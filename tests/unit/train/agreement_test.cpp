// The sampler and the trainer, of the same weights on the CPU in fp32: the same log-probabilities to the bit.
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "engine/engine.h"
#include "train/pass.h"
#include "train/prefixes.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

struct Case {
  const char* name;
  model::Family family;
  int64_t heads, kv_heads;
  bool biases;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

model::Model weights(const Case& c) {
  model::ModelConfig config = sample_config();
  config.family = c.family;
  config.num_heads = c.heads;
  config.num_kv_heads = c.kv_heads;
  config.head_dim = 16;
  config.qk_norm = c.family == model::Family::kQwen3;
  config.attention_bias = c.biases;
  config.max_position = 512;
  model::Model model(config, at::kFloat, at::kCPU);
  model.init_random(3, 0.3);
  for (auto& [name, tensor] : model.named_parameters()) {
    if (tensor.dim() == 1) tensor.add_(at::linspace(-0.2, 0.2, tensor.numel()));
  }
  return model;
}

class Agreement : public testing::TestWithParam<Case> {};

// Samples of several prompts and temperatures, under way together: what each step computes is another batch, prompts
// are read in pieces and partly from the cache, and the trainer packs all of them into one.
TEST_P(Agreement, OfSamplerAndTrainerIsExact) {
  constexpr int64_t kPrompts = 5, kSamples = 3;
  engine::EngineOptions options;
  options.model = "sample";
  options.max_running = 8;
  options.max_context = 256;
  options.kv_cache_tokens = 4096;
  options.max_step_tokens = 48;
  options.threads = 2;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, engine::Output> outputs;
  std::vector<TrainSequence> sequences;
  {
    engine::Engine engine(options, std::make_unique<model::Model>(weights(GetParam())), nullptr);
    for (int64_t i = 0; i < kPrompts * kSamples; ++i) {
      engine::Request request;
      request.id = std::to_string(i);
      for (int64_t t = 0; t < 7 + 31 * (i % kPrompts); ++t) request.prompt_ids.push_back((t * t + i % kPrompts) % 61);
      request.sampling.seed = static_cast<uint64_t>(i);
      request.sampling.max_new_tokens = 10 + 5 * i;
      request.sampling.temperature = i % 3 == 0 ? 0.7 : 1.0;
      request.sampling.ignore_eos = true;
      request.on_output = [&](engine::Output output) {
        const std::lock_guard lock(mutex);
        const std::string id = output.id;
        outputs[id].append(std::move(output));
        changed.notify_all();
      };
      ASSERT_TRUE(engine.submit(request).ok());
      TrainSequence& s = sequences.emplace_back();
      s.tokens = request.prompt_ids;
      s.temperature = request.sampling.temperature;
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      return std::ssize(outputs) == kPrompts * kSamples &&
             std::all_of(outputs.begin(), outputs.end(), [](const auto& o) { return o.second.finished; });
    });
  }
  std::vector<size_t> indices;
  for (size_t i = 0; i < sequences.size(); ++i) {
    TrainSequence& s = sequences[i];
    s.loss_mask.assign(s.tokens.size(), 0);
    s.old_log_probs.assign(s.tokens.size(), 0);
    const auto& sample = outputs.at(std::to_string(i)).samples[0];
    for (size_t t = 0; t < sample.output_ids.size(); ++t) {
      s.tokens.push_back(sample.output_ids[t]);
      s.loss_mask.push_back(1);
      s.old_log_probs.push_back(sample.log_probs[t]);
    }
    s.advantages.assign(s.tokens.size(), 1);
    s.weight_versions.assign(s.tokens.size(), 0);
    indices.push_back(i);
  }
  const model::Model model = weights(GetParam());
  const TrainConfig config = sample_train_config();
  const auto pass = make_cpu_pass(model, config, nullptr);
  // Each sequence for itself, and prompts once for their samples.
  const SharingCosts costs{TrainingFlops(model.config()), *pass->segments()};
  for (const auto& sharing : {std::optional<SharingCosts>(), std::optional(costs)}) {
    const MicroBatch batch = pack_micro_batch(sequences, SharedPrefixes(sequences, indices, sharing).segments(indices),
                                              std::vector<double>(sequences.size(), 1.0), {}, false);
    EXPECT_EQ(batch.shares_prefixes(), sharing.has_value());
    const at::Tensor found = pass->forward(batch, true).log_probs;
    EXPECT_GT(found.numel(), kPrompts * kSamples * 10);
    EXPECT_TRUE(at::equal(found, batch.sampler_log_probs)) << (found - batch.sampler_log_probs).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Agreement,
                         testing::Values(Case{"one_group_of_three", model::Family::kQwen3, 3, 1, false},
                                         Case{"pairs", model::Family::kQwen3, 4, 2, true},
                                         Case{"qwen2_groups_of_seven", model::Family::kQwen2, 7, 1, true}));

}  // namespace
}  // namespace tritonforge::train
