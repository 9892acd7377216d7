// Tensor-parallel ranks of an engine on GPUs: the kernels in which they meet, on one GPU with the others' part played
// by the host, and an engine of two ranks against one, on two. Skips those where there is one.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>

#include "bench/weight_trainer.h"
#include "engine/core.h"
#include "engine/gpu_runner.h"
#include "engine/team_runner.h"
#include "gpu/fixture.h"
#include "kernels/fused_ops.h"
#include "kernels/upload.h"
#include "model/weights.h"
#include "unit/engine/tiny_model.h"
#include "weights/transport.h"

namespace tritonforge::engine {
namespace {

using gpu::Bf16;
using gpu::Buffer;
using gpu::check_cuda;

// Rank 1 of several, whose others have said already that they are there.
class RankKernels : public gpu::GpuTest {
 protected:
  static constexpr uint32_t kNumber = 41, kLater = 2;
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) stop.emplace(sizeof(uint32_t));
  }
  void meet(int ranks, uint32_t told = kNumber + kLater) {
    number = upload(gpu::ints({kNumber}));
    *stop->as<uint32_t>() = 0;
    meeting = {.flags = {},
               .number = number.as<uint32_t>(),
               .later = kLater,
               .stop = stop->as<uint32_t>(),
               .rank = 1,
               .ranks = ranks};
    flags.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      flags.push_back(upload(at::full({ranks}, rank == 1 ? static_cast<int64_t>(told) : 0, at::kInt)));
      meeting.flags[rank] = flags.back().as<uint32_t>();
    }
  }
  void expect_told() {
    for (const Buffer& of : flags)
      EXPECT_EQ(download(of, {meeting.ranks}, at::kInt)[1].item<int32_t>(), static_cast<int32_t>(kNumber + kLater));
  }
  gpu::RankMeeting meeting{};
  std::vector<Buffer> flags;
  Buffer number;
  std::optional<gpu::PinnedMemory> stop;
};

TEST_F(RankKernels, AJoinIsTheNormOfTheResidualAndTheRanksSum) {
  constexpr double kStep = 0x1.0p-7;
  for (const int ranks : {2, 4, 8}) {
    for (const auto& [rows, d] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 4096}, {64, 4096}, {9, 896}, {1024, 896}}) {
      meet(ranks);
      const at::Tensor x = gpu::random_bf16({rows, d}, 3), weight = gpu::random_bf16({d});
      const Buffer dx = upload(x), dw = upload(weight), out = like({rows, d}, at::kBFloat16);
      at::Tensor sum = x.to(at::kFloat), more = at::zeros({rows, d});
      std::vector<Buffer> deltas;
      gpu::JoinRanksArgs args{.meeting = meeting,
                              .deltas = {},
                              .out = out.as(),
                              .x = dx.as(),
                              .weight = dw.as(),
                              .rows = rows,
                              .d = d,
                              .eps = 1e-6F};
      for (int rank = 0; rank < ranks; ++rank) {
        const at::Tensor delta = gpu::random_bf16({rows, d});
        more += delta.to(at::kFloat);
        deltas.push_back(upload(delta));
        args.deltas[rank] = deltas.back().as();
      }
      sum = (sum + more).to(at::kBFloat16);
      check_cuda(api().join_ranks(&args, stream));
      EXPECT_TRUE(at::equal(download(dx, {rows, d}, at::kBFloat16), sum)) << ranks;
      const at::Tensor expected = kernels::rms_norm_reference(sum, weight, 1e-6);
      EXPECT_LE(gpu::worst_element_error(download(out, {rows, d}, at::kBFloat16), expected, 1e-30), 2 * kStep);
      expect_told();
    }
  }
}

TEST_F(RankKernels, LogitsLieSideBySideAndEmbeddingsComeFromTheirRank) {
  for (const int ranks : {2, 4}) {
    meet(ranks);
    constexpr int64_t kRows = 33, kPart = 504, kHidden = 256;
    std::vector<at::Tensor> parts, tables;
    std::vector<Buffer> kept;
    const Buffer logits = like({kRows, ranks * kPart}, at::kFloat), out = like({kRows, kHidden}, at::kBFloat16);
    const at::Tensor ids = at::randint(0, ranks * kPart, {kRows}, at::kInt);
    const Buffer dids = upload(ids);
    gpu::GatherLogitsArgs gather{
        .meeting = meeting, .parts = {}, .logits = logits.as<float>(), .rows = kRows, .part = kPart};
    gpu::EmbedRanksArgs embed{.out = out.as(),
                              .tables = {},
                              .ids = dids.as<int32_t>(),
                              .tokens = kRows,
                              .hidden = kHidden,
                              .table_rows = kPart};
    for (int rank = 0; rank < ranks; ++rank) {
      parts.push_back(at::randn({kRows, kPart}));
      tables.push_back(gpu::random_bf16({kPart, kHidden}));
      kept.push_back(upload(parts.back()));
      gather.parts[rank] = kept.back().as<float>();
      kept.push_back(upload(tables.back()));
      embed.tables[rank] = kept.back().as();
    }
    check_cuda(api().gather_logits(&gather, stream));
    check_cuda(api().embed_ranks(&embed, stream));
    EXPECT_TRUE(at::equal(download(logits, {kRows, ranks * kPart}, at::kFloat), at::cat(parts, 1)));
    EXPECT_TRUE(at::equal(download(out, {kRows, kHidden}, at::kBFloat16),
                          at::cat(tables, 0).index_select(0, ids.to(at::kLong))));
    expect_told();
  }
}

// The others do not come: it waits, and no longer once it is let go.
TEST_F(RankKernels, WhoIsLetGoWaitsNoMore) {
  meet(2, kNumber + kLater - 1);
  check_cuda(api().meet_ranks(&meeting, stream));
  gpu::GpuEvent done;
  done.record(stream);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(done.done());
  *stop->as<volatile uint32_t>() = 1;
  done.wait();
}

TEST_F(RankKernels, ColumnsOfAFileAreUploadedAsTheyAre) {
  kernels::open_device("cuda");
  const at::Tensor whole = at::randn({700, 1000});
  kernels::Upload upload;
  for (const at::Tensor& part : {whole, whole.narrow(1, 500, 500), whole.narrow(1, 7, 1), whole.narrow(0, 350, 350)}) {
    const at::Tensor target = at::empty(part.sizes(), at::TensorOptions().device(at::kCUDA, 0));
    upload.copy(target, part);
    upload.finish();
    EXPECT_TRUE(at::equal(target.cpu(), part));
  }
}

// ---- Two GPUs ----

model::ModelConfig shared_config(model::Family family) {
  model::ModelConfig config = gpu::small_config(family);
  config.vocab_size = 1040;  // of which a half is a width of the kernels, too
  return config;
}

class TwoGpus : public gpu::GpuTest {
 protected:
  static constexpr int64_t kRequests = 12, kTokens = 60, kBegin = 5;
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    int count = 0;
    check_cuda(api().device_count(&count));
    if (count < 2) GTEST_SKIP() << "one GPU: an engine of two ranks needs two";
    for (const char* name : {"cuda:0", "cuda:1"}) devices.push_back(kernels::open_device(name));
  }
  static std::unique_ptr<model::Model> whole(model::Family family = model::Family::kQwen3, uint64_t seed = 1) {
    auto made = std::make_unique<model::Model>(shared_config(family), at::kBFloat16, at::kCPU);
    made->init_random(seed, 0.08);
    const at::NoGradGuard no_grad;
    at::manual_seed(5);
    for (const auto& [name, tensor] : made->named_parameters())
      if (tensor.dim() == 1) at::Tensor(tensor).uniform_(0.5, 1.5);
    return made;
  }
  static EngineOptions options(int64_t tp) {
    EngineOptions options = gpu::small_engine_options();
    options.max_running = 20;
    options.kv_cache_tokens = 512 * 20;
    options.tp = tp;
    return options;
  }
  std::vector<std::unique_ptr<model::Model>> ranks_of(const model::Model& model, int64_t tp) const {
    return parts_of(model, std::vector<at::Device>(devices.begin(), devices.begin() + tp));
  }
  static Request request(int64_t i) {
    Request request;
    request.id = std::to_string(i);
    request.prompt_ids = prompt_of(i == 0 ? 1 : i < 4 ? 100 : 20 * i, i < 4 ? 1 : i);
    request.sampling.max_new_tokens = kTokens;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 3 == 0 ? 0.8F : 0;
    if (i % 4 == 1) request.log_probs = {.top = 2, .prompt_from = 1};
    if (i % 4 == 3) request.sampling.logit_bias = {{7, 3.0}};
    return request;
  }
  static std::vector<Output> answers_of(Core& core) {
    std::vector<Output> outputs(kRequests);
    for (int64_t i = 0; i < kRequests; ++i) {
      Request asked = request(i);
      asked.on_output = [&outputs, i](Output part) { outputs[static_cast<size_t>(i)].append(std::move(part)); };
      core.admit(std::move(core.arrival(std::move(asked)).value()));
    }
    const at::InferenceMode inference;
    while (core.has_work()) core.step();
    EXPECT_EQ(core.stats().failed_steps, 0);
    EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
    return outputs;
  }
  std::vector<std::vector<int64_t>> tokens_of(Core& core) const {
    std::vector<std::vector<int64_t>> tokens;
    for (const Output& output : answers_of(core)) tokens.push_back(output.samples.at(0).output_ids);
    return tokens;
  }
  // Each text is held against the fp32 model on the CPU, as one GPU's: log-probabilities, and greedy tokens next to the
  // best. (A bias moves what it is asked of, so those with one are left out.) Returns the worst difference.
  static double expect_near_the_reference(const std::vector<Output>& outputs, const model::Model& weights) {
    const auto reference = gpu::copy_of(weights, at::kFloat, at::kCPU);
    double worst = 0, total = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < kRequests; ++i) {
      if (i % 4 == 3) continue;
      const Request asked = request(i);
      const Sample& said = outputs[static_cast<size_t>(i)].samples.at(0);
      EXPECT_EQ(std::ssize(said.output_ids), kTokens) << said.abort_message;
      const bool greedy = asked.sampling.temperature == 0;
      const at::Tensor log_probs = gpu::log_probs_of(*reference, asked.prompt_ids, said.output_ids,
                                                     greedy ? 1 : asked.sampling.temperature);
      for (int64_t t = 0; t < std::ssize(said.output_ids); ++t) {
        const at::Tensor row = log_probs[t];
        const auto expected = row[said.output_ids[static_cast<size_t>(t)]].item<float>();
        const double off = std::abs(expected - said.log_probs[static_cast<size_t>(t)]);
        if (greedy) {
          EXPECT_LT(row.max().item<float>() - expected, 0.25) << i << ", token " << t;
        }
        worst = std::max(worst, off);
        total += off;
        ++count;
      }
    }
    EXPECT_LT(total / static_cast<double>(count), 0.02);
    EXPECT_LT(worst, 0.25);
    return worst;
  }
  std::vector<at::Device> devices;
};

// The same tolerances as one GPU's (engine_test.cpp). A text may leave the other's where bfloat16 decides.
TEST_F(TwoGpus, SayWhatOneSaysWithinBf16) {
  for (const auto family : {model::Family::kQwen3, model::Family::kQwen2}) {
    const auto weights = whole(family);
    Core one(options(1), std::move(ranks_of(*weights, 1).front()), nullptr),
        two(options(2), ranks_of(*weights, 2), nullptr);
    const auto alone = answers_of(one), together = answers_of(two);
    const double worst_alone = expect_near_the_reference(alone, *weights),
                 worst = expect_near_the_reference(together, *weights);
    int64_t equal = 0, begin_equal = 0;
    for (size_t i = 0; i < together.size(); ++i) {
      const auto &these = together[i].samples[0].output_ids, &those = alone[i].samples[0].output_ids;
      equal += these == those;
      begin_equal += std::equal(these.begin(), these.begin() + kBegin, those.begin());
      ASSERT_EQ(together[i].prompt.log_probs.size(), alone[i].prompt.log_probs.size());
      for (size_t t = 0; t < alone[i].prompt.log_probs.size(); ++t)
        EXPECT_NEAR(together[i].prompt.log_probs[t], alone[i].prompt.log_probs[t], 0.25) << i << ", token " << t;
    }
    fmt::print("two GPUs: {} of {} texts are one GPU's; log-probs off fp32 by at most {:.4f}, one GPU's by {:.4f}\n",
               equal, kRequests, worst, worst_alone);
    EXPECT_GE(begin_equal, kRequests * 2 / 3);  // each token's draw is the other's but for 1 or 2 in 100
  }
}

TEST_F(TwoGpus, ADecodeStepIsOneLaunchOnEach) {
  const auto weights = whole();
  Core core(options(2), ranks_of(*weights, 2), nullptr);
  for (int64_t i = 0; i < 8; ++i) {
    Request asked;
    asked.id = std::to_string(i);
    asked.prompt_ids = prompt_of(100, i);
    asked.sampling.max_new_tokens = 60;
    core.admit(std::move(core.arrival(std::move(asked)).value()));
  }
  const at::InferenceMode inference;
  for (int i = 0; i < 10; ++i) core.step();
  const EngineStats before = core.stats();
  for (int i = 0; i < 40; ++i) core.step();
  const EngineStats after = core.stats();
  EXPECT_EQ(after.graph_steps - before.graph_steps, 40);
  fmt::print("8 decodes of three layers: {} kernels and copies a rank, one launch\n",
             (after.graph_nodes - before.graph_nodes) / 40);
}

// The batches have the same shapes either way, so the same bits; ATen's path sums in another order.
TEST_F(TwoGpus, GraphsAndStepsAheadChangeNoTokenAndAtensPathIsNear) {
  const auto weights = whole();
  std::vector<std::vector<int64_t>> first;
  for (const bool graphs : {true, false}) {
    for (const bool ahead : {true, false}) {
      EngineOptions chosen = options(2);
      chosen.cuda_graphs = graphs;
      chosen.step_ahead = ahead;
      Core core(chosen, ranks_of(*weights, 2), nullptr);
      const auto tokens = tokens_of(core);
      if (first.empty()) first = tokens;
      EXPECT_EQ(tokens, first) << "graphs " << graphs << ", ahead " << ahead;
    }
  }
  EngineOptions aten = options(2);
  aten.gpu_kernels = false;
  Core core(aten, ranks_of(*weights, 2), nullptr);
  expect_near_the_reference(answers_of(core), *weights);
}

TEST_F(TwoGpus, ChunkedPromptsTuningAndSleepStayNear) {
  const auto weights = whole();
  EngineOptions chunked = options(2);
  chunked.max_step_tokens = 64;
  chunked.tune_gemms = true;
  Core core(chunked, ranks_of(*weights, 2), nullptr);
  expect_near_the_reference(answers_of(core), *weights);
  core.release_memory();
  core.resume_memory();
  expect_near_the_reference(answers_of(core), *weights);
}

// With a graph of every shape there already: it finds the new ones where the old ones were.
TEST_F(TwoGpus, NewWeightsOfAFileReachBoth) {
  const auto old = whole(), fresh = whole(model::Family::kQwen3, 2);
  const TemporaryFolder folder("team");
  PublishedWeights published{folder.path() / "w.safetensors", 1, {}, {}};
  published.checksums = model::save_safetensors(fresh->named_parameters(), published.path, {});
  Core core(options(2), ranks_of(*old, 2), nullptr), expected(options(2), ranks_of(*fresh, 2), nullptr);
  const auto before = tokens_of(core);
  const auto staged = weights::stage_weights(core.parts(), published.path, published.checksums);
  EXPECT_EQ(staged.uploads.size(), 2u);
  {
    const at::InferenceMode inference;
    EXPECT_EQ(core.install(staged, 1).checksums, published.checksums);
  }
  const auto after = tokens_of(core);
  EXPECT_NE(after, before);
  EXPECT_EQ(after, tokens_of(expected));
}

// A trainer in another process, as in weights_test.cpp. (Half of its model's vocabulary is no width of the kernels: the
// engine computes by ATen's operations.)
TEST_F(TwoGpus, ATrainersMemoryIsMappedOnceForBoth) {
  WeightTrainer trainer({"trainer"});
  const auto other = gpu::small_model(2, at::kCPU);
  Core core(options(2), ranks_of(*other, 2), nullptr);
  const auto transports = weights::make_transports("");
  int64_t version = 0;
  for (const std::string way : {"device", "shm", "disk", "device"}) {
    PublishedWeights published = trainer.publish(++version, way);
    if (way == "device") published.path.clear();
    const auto by = std::ranges::find_if(transports, [&](const auto& t) { return t->offered(published); });
    ASSERT_NE(by, transports.end());
    const auto staged = (*by)->stage(core.parts(), published, Deadline::after(60));
    const at::InferenceMode inference;
    EXPECT_EQ(core.install(staged, version).checksums, published.checksums) << way;
    trainer.change();
  }
}

class StumblingRunner : public GpuRunner {
 public:
  using GpuRunner::GpuRunner;
  void forward() override {
    if (++steps_ == 5) throw std::runtime_error("it stumbled");
    GpuRunner::forward();
  }

 private:
  int64_t steps_ = 0;
};

// The other's kernels wait for it in the middle of a layer: they are let go, and the next step is as any other.
TEST_F(TwoGpus, ARankThatFailsLetsTheOtherGo) {
  const auto weights = whole();
  const MakeTeamRunner stumbling = [](const EngineOptions& options, const model::Parts& parts) {
    SizedRunner made = make_team_runner(options, parts);
    made.runner.reset();
    auto gpus = std::make_unique<GpuRanks>(parts);
    auto team = std::make_unique<RankTeam>(parts.size(), 1, [shared = gpus.get()] { shared->let_go(); });
    const auto make = [&, shared = gpus.get()](int64_t rank) -> std::unique_ptr<Runner> {
      if (rank == 0) return std::make_unique<GpuRunner>(options, made.sizes, parts[rank], shared, rank);
      return std::make_unique<StumblingRunner>(options, made.sizes, parts[rank], shared, rank);
    };
    made.runner = std::make_unique<TeamRunner>(std::move(team), std::move(gpus), parts, make);
    return made;
  };
  Core core(options(2), ranks_of(*weights, 2), nullptr, nullptr, stumbling);
  Output failed;
  Request asked = request(4);
  asked.on_output = [&failed](Output part) { failed.append(std::move(part)); };
  core.admit(std::move(core.arrival(std::move(asked)).value()));
  {
    const at::InferenceMode inference;
    while (core.has_work()) core.step_or_recover();
  }
  EXPECT_EQ(failed.samples.at(0).abort_message, "a step of the engine failed: it stumbled");
  EXPECT_EQ(core.stats().failed_steps, 1);
  const int64_t steps = core.stats().steps;
  std::vector<Output> outputs(kRequests);
  for (int64_t i = 0; i < kRequests; ++i) {
    Request again = request(i);
    again.on_output = [&outputs, i](Output part) { outputs[static_cast<size_t>(i)].append(std::move(part)); };
    core.admit(std::move(core.arrival(std::move(again)).value()));
  }
  const at::InferenceMode inference;
  while (core.has_work()) core.step();
  EXPECT_GT(core.stats().steps, steps);
  expect_near_the_reference(outputs, *weights);
}

}  // namespace
}  // namespace tritonforge::engine
