// What an FP8 cache costs in log-probability, of a model that was trained: models/tiny-base over the texts of
// problems/.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "base/filesystem.h"
#include "engine/core.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::engine {
namespace {

const fs::path kModel = fs::path(TF_SOURCE_DIR) / "models/tiny-base";
constexpr int64_t kTexts = 12, kNew = 60;

std::vector<std::vector<int64_t>> prompts() {
  const auto tokenizer = tokenizer::Tokenizer::load(kModel);
  std::vector<fs::path> files(fs::directory_iterator(fs::path(TF_SOURCE_DIR) / "problems/level1"), {});
  std::ranges::sort(files);
  std::vector<std::vector<int64_t>> ids;
  for (const fs::path& file : std::span(files).first(kTexts)) {
    ids.push_back(tokenizer.encode(read_file(file)));
    ids.back().resize(std::min<size_t>(ids.back().size(), 160));
  }
  return ids;
}

// Each request is answered alone or with the others, as the engine likes.
std::vector<Output> answers_to(const std::vector<Request>& requests, CacheDtype cache) {
  EngineOptions options;
  options.model = kModel;
  options.max_running = kTexts;
  options.max_context = 512;
  options.kv_cache_tokens = 512 * kTexts;
  options.kv_cache_dtype = cache;
  Core core(options, std::make_unique<model::Model>(model::load_model(kModel, at::kFloat, at::kCPU)), nullptr);
  std::vector<Output> outputs(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request request = requests[i];
    request.id = std::to_string(i);
    request.on_output = [&outputs, i](Output part) { outputs[i].append(std::move(part)); };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  const at::InferenceMode inference;
  while (core.has_work()) core.step();
  return outputs;
}

struct Loss {
  double mean = 0, largest = 0;
};
// What an engine with this cache says of the tokens that it draws, beside what one without FP8 says of the same.
Loss loss_of(CacheDtype cache) {
  std::vector<Request> requests;
  for (const auto& ids : prompts()) {
    Request& request = requests.emplace_back();
    request.prompt_ids = ids;
    request.sampling.max_new_tokens = kNew;
    request.sampling.seed = requests.size();
    request.sampling.ignore_eos = true;
  }
  const auto said = answers_to(requests, cache);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].log_probs.prompt_from = std::ssize(requests[i].prompt_ids);
    const auto& drawn = said[i].samples.at(0).output_ids;
    requests[i].prompt_ids.insert(requests[i].prompt_ids.end(), drawn.begin(), drawn.end());
    requests[i].sampling.max_new_tokens = 1;
  }
  const auto scored = answers_to(requests, CacheDtype::kAuto);
  Loss loss;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(std::ssize(scored[i].prompt.log_probs), kNew);
    for (size_t t = 0; t < kNew; ++t) {
      const double off = std::abs(said[i].samples[0].log_probs.at(t) - scored[i].prompt.log_probs.at(t));
      loss.mean += off / (kTexts * kNew);
      loss.largest = std::max(loss.largest, off);
    }
  }
  return loss;
}

TEST(Fp8Cache, CostsLittleInLogProb) {
  const Loss none = loss_of(CacheDtype::kAuto), some = loss_of(CacheDtype::kFp8);
  EXPECT_LT(none.largest, 1e-4);
  EXPECT_GT(some.mean, 1e-4) << "the option does nothing";
  EXPECT_LT(some.mean, 0.05);  // seen: 0.030
  EXPECT_LT(some.largest, 2);  // seen: 1.05
}

}  // namespace
}  // namespace tritonforge::engine
