// An engine whose layers' matrices are FP8 (weight_dtype) says what one with the widened numbers says, in any number of
// ranks, and rounds whatever weights come to it.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/filesystem.h"
#include "engine/engine.h"
#include "engine/sizing.h"
#include "model/weights.h"
#include "net/bulk.h"
#include "unit/engine/random_schedule.h"
#include "unit/weights/publication.h"
#include "weights/transport.h"

namespace tritonforge::engine {
namespace {

using ::testing::HasSubstr;

EngineOptions fp8_options(int64_t tp = 1) {
  EngineOptions options = small_options();
  options.weight_dtype = WeightDtype::kFp8;
  options.tp = tp;
  return options;
}

// The whole tensors that the ranks have, as what they stand for.
std::map<std::string, at::Tensor> wholes_of(const model::Parts& parts) {
  std::map<std::string, at::Tensor> wholes;
  for (const model::ShardedTensor& tensor : parts.tensors()) wholes[tensor.name] = tensor.whole().to(at::kFloat);
  return wholes;
}
// Those that a rank's part of the same rounded model would have.
void expect_rounded(const model::Parts& found, const model::Model& source) {
  const auto expected = parts_of(source, 1, true);
  const auto wanted = wholes_of(*expected.front());
  for (const auto& [name, whole] : wholes_of(found)) EXPECT_TRUE(at::equal(whole, wanted.at(name))) << name;
}

TEST(Fp8Weights, SayWhatTheWidenedNumbersSay) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;  // as on the engine's thread
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto whole = dtype == at::kFloat ? tiny_model()
                                           : std::make_unique<model::Model>(tiny_config(), dtype, at::kCPU);
    if (dtype != at::kFloat) whole->init_random(1, 0.4);
    auto rounded = parts_of(*whole, 1, true);
    EXPECT_TRUE(at::equal(rounded.front()->embed_tokens(), whole->embed_tokens()));
    EXPECT_EQ(rounded.front()->layers()[0].qkv_proj.scalar_type(), at::kFloat8_e4m3fn);
    Core wide(small_options(), widened_copy(model::Parts(rounded)), nullptr);
    Core fp8(fp8_options(), std::move(rounded.front()), nullptr);
    EXPECT_EQ(fp8.info().weight_dtype, "fp8_e4m3");
    const auto said = said_alone(fp8), wanted = said_alone(wide);
    for (size_t i = 0; i < wanted.size(); ++i) expect_said(said[i], wanted[i], 0);
    Core exact(small_options(), tiny_model(), nullptr);
    EXPECT_NE(said[9].log_probs, said_alone(exact)[9].log_probs) << "nothing was rounded";
  }
}

TEST(Fp8Weights, RandomSchedulesChangeNoToken) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;  // as on the engine's thread
  Core alone(fp8_options(), std::move(parts_of(*tiny_model(), 1, true).front()), nullptr);
  const auto expected = said_alone(alone);
  Happened sum;
  for (const int64_t tp : {1, 2}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(fmt::format("tp {}, seed {}", tp, seed));
      EngineOptions options = fp8_options(tp);
      options.draft_tokens = seed % 2 == 0 ? 5 : 0;
      Core core(options, parts_of(*tiny_model(), tp, true), nullptr);
      const Happened happened = live_through({.seed = seed}, core, *tiny_model());
      for (const auto& [kind, sample] : happened.answers)
        expect_said(sample, expected[static_cast<size_t>(kind)], 1e-4F);
      sum.sleeps += happened.sleeps;
      sum.updates += happened.updates;
    }
  }
  EXPECT_GT(sum.sleeps, 10);
  EXPECT_GT(sum.updates, 10);
}

// Columns of a row lie with several ranks: they share its scale.
TEST(Fp8Weights, AreTheSameNumbersInAnyNumberOfRanks) {
  const auto whole = tiny_model(4);
  const auto one = parts_of(*whole, 1, true), two = parts_of(*whole, 2, true);
  const auto wanted = wholes_of(*one.front());
  for (const auto& [name, found] : wholes_of(model::Parts(two))) EXPECT_TRUE(at::equal(found, wanted.at(name))) << name;
  EXPECT_TRUE(at::equal(two[0]->layers()[1].down_scales, one[0]->layers()[1].down_scales));
  EXPECT_TRUE(at::equal(two[1]->layers()[1].down_scales, one[0]->layers()[1].down_scales));
}

// By each way that a CPU has: what was published is what its checksums are of, and the layers have it rounded.
TEST(Fp8Weights, AreRoundedFromWhateverIsPublished) {
  const at::NoGradGuard no_grad;
  const TemporaryFolder folder("fp8");
  net::BulkServer server({.key = "run"});
  const auto transports = weights::make_transports("run");
  const auto by = [&](const std::string& way) {
    return std::ranges::find(transports, way, [](const auto& transport) { return transport->name(); })->get();
  };
  for (const int64_t tp : {1, 2}) {
    Core core(fp8_options(tp), parts_of(*tiny_model(1), tp, true), nullptr);
    int64_t version = 0;
    for (const std::string way : {"file", "tcp"}) {
      SCOPED_TRACE(fmt::format("{}, tp {}", way, tp));
      const auto source = tiny_model(20 + static_cast<uint64_t>(++version));
      PublishedWeights published{.path = folder.path() / fmt::format("{}{}.safetensors", way, tp), .version = version};
      published.checksums = model::save_safetensors(source->named_parameters(), published.path, {});
      published.tcp = StreamedWeights{"127.0.0.1", server.port()};
      server.offer(version, published.path);
      if (way == "tcp") core.release_memory();
      const auto staged = by(way)->stage(core.parts(), published, Deadline::after(10));
      EXPECT_EQ(core.install(staged, version).checksums, published.checksums);
      core.resume_memory();
      expect_rounded(core.parts(), *source);
      // The next step computes with them.
      Core fresh(fp8_options(tp), parts_of(*source, tp, true), nullptr);
      const auto said = said_alone(core), wanted = said_alone(fresh);
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(said[i].log_probs, wanted[i].log_probs);
    }
    for (const weights::SourceLayout layout : {weights::SourceLayout{}, weights::SourceLayout{2, 2, 1}}) {
      SCOPED_TRACE(fmt::format("group of {} x {}, tp {}", layout.tp, layout.pp, tp));
      weights::Publication trainer(layout);
      const auto seed = 30 + static_cast<uint64_t>(++version);
      const PublishedWeights published = trainer.publish(version, seed);
      const auto staged = weights::receive_weights(core.parts(), published, "run", "a", Deadline::after(60),
                                                   weights::kStall);
      // What is rounded waits as it came, and nowhere else.
      std::set<const void*> memory;
      for (const auto& rounding : staged.roundings)
        for (const auto& part : rounding.parts) memory.insert(part.values.storage().data());
      EXPECT_EQ(std::ssize(memory), layout.sources());
      EXPECT_EQ(core.install(staged, version).checksums, published.checksums);
      model::Model source(tiny_config(), at::kFloat, at::kCPU);
      source.init_random(seed);
      expect_rounded(core.parts(), source);
    }
    const at::Tensor o = at::randn({32, 64}), norm = at::randn({32});
    const weights::NamedTensors some{{"model.layers.1.self_attn.o_proj.weight", o}, {"model.norm.weight", norm}};
    const auto installed = core.install(weights::stage_part(core.parts(), some, "a test"), version + 1);
    EXPECT_EQ(installed.checksums, model::checksums_of(some));
    EXPECT_TRUE(at::equal(wholes_of(core.parts()).at(some[0].first), kernels::widened(kernels::to_fp8(o), at::kFloat)));
  }
}

// Some of its matrices are new by then.
TEST(Fp8Weights, WithoutMemoryToRoundThemThereAreNoWeightsUntilAllComeAgain) {
  const at::NoGradGuard no_grad;
  Core core(fp8_options(), std::move(parts_of(*tiny_model(1), 1, true).front()), nullptr);
  Output output;
  Request running = request_of(1);
  running.id = "running";
  running.on_output = [&output](Output part) { output.append(std::move(part)); };
  core.admit(std::move(core.arrival(std::move(running)).value()));
  core.step();
  const auto source = tiny_model(2);
  const auto wholes = source->named_parameters();
  const weights::StagedWeights all = weights::stage_part(core.parts(), {wholes.begin(), wholes.end()}, "a test");
  weights::StagedWeights complete = all;
  complete.part = false;
  weights::StagedWeights staged = complete;
  staged.roundings.back().target.places.front().whole = {int64_t{1} << 40, 1 << 10};  // no host has as much
  EXPECT_THAT([&] { core.install(staged, 7); },
              testing::Throws<Error>(testing::AllOf(
                  testing::Property(&Error::kind, ErrorKind::kMachine),
                  testing::Property(&Error::what, testing::AllOf(HasSubstr("no weights until the next update: "),
                                                                 HasSubstr("can't allocate memory"),
                                                                 testing::Not(HasSubstr("\n")))))));
  EXPECT_EQ(core.stats().weight_version, -1);
  ASSERT_EQ(output.samples.size(), 1U);
  EXPECT_EQ(output.samples[0].finish, FinishReason::kAbort);
  EXPECT_THROW(core.install(all, 7), Error) << "a part of them is not enough";
  Request waiting = request_of(1);
  waiting.id = "waiting";
  core.admit(std::move(core.arrival(std::move(waiting)).value()));
  EXPECT_FALSE(core.has_work());
  core.install(complete, 8);
  EXPECT_EQ(core.stats().weight_version, 8);
  EXPECT_TRUE(core.has_work());
  expect_rounded(core.parts(), *source);
}

TEST(Fp8Weights, ComeFromAFolderAndTakeAQuarterOfTheBytes) {
  const TemporaryFolder folder("fp8");
  const auto whole = tiny_model(3);
  model::save_model(*whole, folder.path() / "model");
  for (const size_t tp : {1, 2}) {
    const auto parts = model::load_parts(folder.path() / "model", at::kFloat, std::vector<at::Device>(tp, at::kCPU),
                                         true);
    expect_rounded(model::Parts(parts), *whole);
  }
  // Matrices of the layers: a byte instead of four, and a scale a row; the rest as it was, but for gaps.
  const auto rounded = parts_of(*whole, 1, true);
  const int64_t matrices = tiny_config().matrix_elements(), rows = 2 * (128 + 32 + 128 + 32);
  const auto saved = static_cast<int64_t>(whole->arena().nbytes() - rounded.front()->arena().nbytes());
  EXPECT_NEAR(static_cast<double>(saved), static_cast<double>(3 * matrices - 4 * rows), 8 * 128 * 4);
  Core core(fp8_options(), std::move(parts_of(*whole, 1, true).front()), nullptr);
  EXPECT_EQ(core.info().memory.weights,
            static_cast<int64_t>(core.model().arena().nbytes()) + core.model().packed_bytes());
}

TEST(Fp8Weights, AreRefusedWhereNothingRoundsThem) {
  EXPECT_THAT([] { fp8_matrices(fp8_options(), at::kHalf); },
              testing::ThrowsMessage<Error>(HasSubstr("--weight-dtype fp8_e4m3: of models in float32 or bfloat16")));
  EngineOptions stored = fp8_options();
  stored.model = "a.gguf";
  stored.dtype = "as_stored";
  EXPECT_THAT([&] { Engine engine(stored); },
              testing::ThrowsMessage<Error>(HasSubstr("--dtype as_stored keeps a file's own blocks")));
}

}  // namespace
}  // namespace tritonforge::engine
