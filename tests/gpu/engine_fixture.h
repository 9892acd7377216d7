#pragma once
// What tests of the engine on a GPU have in common: a model, twenty requests, and their answers under the model in
// fp32.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core.h"
#include "gpu/fixture.h"

namespace tritonforge::engine {

std::vector<int64_t> prompt_of(int64_t length, int64_t salt);

class EngineOnGpu : public gpu::GpuTest {
 protected:
  static constexpr int64_t kRequests = 20;
  // Of model(): it says tokens in turn; its matrices are in FP8. Off at the end of a test.
  static inline bool repeats_itself = false, in_fp8 = false;
  void TearDown() override;

  static std::unique_ptr<model::Model> model(at::ScalarType dtype, at::Device device,
                                             model::Family family = model::Family::kQwen3);
  static EngineOptions options();
  // Prompts of 1 to 400 tokens, some shared; greedy and sampled rows, some with cuts.
  static Request request(int64_t i);
  static std::map<std::string, Output> run(const EngineOptions& options, model::Family family = model::Family::kQwen3,
                                           EngineStats* stats = nullptr);
  // Log-probabilities under the fp32 model on the CPU, and how far each greedy token is from the best one.
  static void expect_near_the_reference(const std::map<std::string, Output>& outputs, model::Family family);
  static int64_t equal_tokens(const std::map<std::string, Output>& a, const std::map<std::string, Output>& b);
};

}  // namespace tritonforge::engine
