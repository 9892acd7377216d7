// The engine's memory plan against what the driver says is used; sleep, wake, and a device without a free byte.
#include <map>

#include "bench/qwen3_8b.h"
#include "engine/core.h"
#include "gpu/fixture.h"
#include "model/weights.h"

namespace tritonforge::engine {
namespace {

constexpr int64_t kLayers = 6;
constexpr int64_t kMiB = int64_t{1} << 20;

class MemoryOnGpu : public gpu::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    device_ = kernels::open_device("cuda");
    at::getDeviceAllocator(device_.type())->emptyCache();
    free_before_ = kernels::free_memory(device_);
  }
  static EngineOptions options() {
    EngineOptions options;
    options.device = "cuda";
    options.max_running = 64;
    options.max_context = 4096;
    options.kv_cache_tokens = 65536;
    options.tune_gemms = false;
    return options;
  }
  std::unique_ptr<Core> core(const EngineOptions& o = options()) {
    at::manual_seed(5);
    return std::make_unique<Core>(o, random_qwen3_8b("cuda", kLayers), nullptr);
  }
  int64_t used() const { return free_before_ - kernels::free_memory(device_); }
  void admit(Core& core, int64_t id, int64_t prompt, int64_t tokens) {
    Request request;
    request.id = std::to_string(id);
    request.prompt_ids = bench_prompt(prompt, id);
    request.sampling.max_new_tokens = tokens;
    request.sampling.seed = static_cast<uint64_t>(id);
    request.sampling.ignore_eos = true;
    if (id % 4 == 1) request.sampling.top_p = 0.9;
    request.on_output = [this](Output part) {
      const std::string from = part.id;
      outputs_[from].append(std::move(part));
    };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  // Requests that end one after another: every size of step.
  void load(Core& core) {
    for (int64_t i = 0; i < 64; ++i) admit(core, i, i == 7 ? 3000 : 100, 8 + 4 * i);
    run(core);
  }
  void run(Core& core) {
    const at::InferenceMode inference;
    while (core.has_work()) core.step_or_recover();
    EXPECT_EQ(core.stats().failed_steps, 0);
  }
  void expect_as_planned(const char* when, const MemoryPlan& plan) const {
    const double off = static_cast<double>(used() - plan.total()) / static_cast<double>(plan.total());
    fmt::print("{}: {} MiB used, {} planned, {:+.2f} %\n", when, used() / kMiB, plan.total() / kMiB, 100 * off);
    EXPECT_LT(std::abs(off), 0.03) << when;
  }
  at::Device device_ = at::kCPU;
  int64_t free_before_ = 0;
  std::map<std::string, Output> outputs_;
};

TEST_F(MemoryOnGpu, ThePlanIsWhatIsUsedAfterTheStartAndUnderLoad) {
  const auto sleeper = core();
  const MemoryPlan plan = sleeper->info().memory;
  for (const std::string& line : plan.lines()) fmt::print("{}\n", line);
  expect_as_planned("after the start", plan);
  load(*sleeper);
  expect_as_planned("after the load", plan);
  sleeper->release_memory();
  sleeper->resume_memory();
  load(*sleeper);
  expect_as_planned("after a sleep", plan);
}

TEST_F(MemoryOnGpu, SleepGivesAllOfItBackAndTheSameIsSampledAfterwards) {
  const auto sleeper = core();
  load(*sleeper);
  const auto before = std::exchange(outputs_, {});
  const auto checksums = model::weight_checksums(sleeper->model());
  const int64_t awake = used();
  {
    sleeper->release_memory();
    fmt::print("asleep: {} of {} MiB used\n", used() / kMiB, awake / kMiB);
    EXPECT_LT(used(), awake / 20) << "only the code of kernels stays";
    const gpu::Buffer somebody(static_cast<size_t>(sleeper->model().arena().nbytes()));  // takes their place
    sleeper->resume_memory();
    EXPECT_EQ(model::weight_checksums(sleeper->model()), checksums);
    load(*sleeper);
  }
  for (const auto& [id, output] : before) {
    EXPECT_EQ(outputs_.at(id).samples[0].output_ids, output.samples[0].output_ids) << id;
    EXPECT_EQ(outputs_.at(id).samples[0].log_probs, output.samples[0].log_probs) << id;
  }
  // The weights alone, with requests under way that keep their caches and know no graph of the old addresses.
  outputs_.clear();
  for (int64_t i = 0; i < 8; ++i) admit(*sleeper, i, 100, 60);
  {
    const at::InferenceMode inference;
    for (int i = 0; i < 20; ++i) sleeper->step();
    sleeper->release_memory({.cache = false, .weights = true});
    const gpu::Buffer somebody(static_cast<size_t>(sleeper->model().arena().nbytes()));
    sleeper->resume_memory({.cache = false, .weights = true});
    EXPECT_EQ(sleeper->stats().running, 8);
    run(*sleeper);
  }
  const auto moved = std::exchange(outputs_, {});
  for (int64_t i = 0; i < 8; ++i) admit(*sleeper, i, 100, 60);
  run(*sleeper);
  for (const auto& [id, output] : outputs_)
    EXPECT_EQ(output.samples[0].output_ids, moved.at(id).samples[0].output_ids) << id;
}

// Every byte is somebody else's: no graph and no kernel's code finds room, and all requests end as they should.
TEST_F(MemoryOnGpu, WithoutAFreeByteNothingIsLost) {
  EngineOptions tuned = options();
  tuned.tune_gemms = true;
  const auto crowded = core(tuned);
  std::vector<gpu::Buffer> hog;
  for (int64_t size = 1 << 17; size > 0; size /= 2) {  // MiB
    while (kernels::free_memory(device_) > size * kMiB) {
      void* taken = nullptr;
      if (api().allocate(&taken, static_cast<size_t>(size * kMiB)) != 0) break;
      api().release(taken);
      hog.emplace_back(static_cast<size_t>(size * kMiB));
    }
  }
  load(*crowded);
  ASSERT_EQ(outputs_.size(), 64u);
  for (const auto& [id, output] : outputs_)
    EXPECT_EQ(output.samples[0].finish, FinishReason::kLength) << id << " " << output.samples[0].abort_message;
}

}  // namespace
}  // namespace tritonforge::engine
