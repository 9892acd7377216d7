#include "kernels/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "kernels/gpu/adamw_math.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

using gpu::AdamwArgs;
using gpu::AdamwState;

// Three tensors that begin at odd places, the middle one without decay.
struct Arena {
  static constexpr int64_t kCount = 100'003;
  const std::vector<int64_t> begins{0, 33'331, 33'350};
  const std::vector<float> decays{0.1f, 0, 0.2f};
  std::vector<float> gradients, first, second, masters;
  std::vector<gpu::Bf16> weights;
  AdamwState state{};

  Arena() : gradients(kCount), first(kCount), second(kCount), masters(kCount), weights(kCount) {
    Rng rng(3);
    for (float& value : masters) value = static_cast<float>(rng.uniform() - 0.5);
  }
  AdamwArgs args() {
    return {.state = &state,
            .gradients = gradients.data(),
            .weights = weights.data(),
            .master = masters.data(),
            .first = first.data(),
            .second = second.data(),
            .fp32 = true,
            .place = 0,
            .count = kCount,
            .begins = begins.data(),
            .decays = decays.data(),
            .tensors = std::ssize(begins),
            .clip = 1,
            .learning_rate = 1e-2f,
            .beta1 = 0.9f,
            .beta2 = 0.98f,
            .eps = 1e-8f};
  }
  void draw(uint64_t step) {
    Rng rng(100 + step);
    double squares = 0;
    for (float& value : gradients) {
      value = static_cast<float>((rng.uniform() - 0.5) * std::pow(10.0, -8 * rng.uniform()));
      squares += static_cast<double>(value) * value;
    }
    state.squares = static_cast<float>(squares);
    gpu::decide(state, args());
  }
};

float widened(gpu::Bf16 bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

TEST(Adamw, IsItsFormulaInDouble) {
  Arena arena;
  std::vector<double> first(Arena::kCount), second(Arena::kCount), masters(arena.masters.begin(), arena.masters.end());
  for (uint64_t step = 1; step <= 5; ++step) {
    arena.draw(step);
    adamw(arena.args());
    const double norm = std::sqrt(static_cast<double>(arena.state.squares)), scale = norm > 1 ? 1 / norm : 1;
    for (size_t i = 0; i < masters.size(); ++i) {
      const double g = arena.gradients[i] * scale, decay = i < 33'331 ? 0.1 : i < 33'350 ? 0 : 0.2;
      first[i] = 0.9 * first[i] + 0.1 * g;
      second[i] = 0.98 * second[i] + 0.02 * g * g;
      const double corrected = second[i] / (1 - std::pow(0.98, step));
      masters[i] += -1e-2 * decay * masters[i] -
                    1e-2 * first[i] / (1 - std::pow(0.9, step)) / (std::sqrt(corrected) + 1e-8);
    }
  }
  EXPECT_EQ(arena.state.steps, 5);
  for (size_t i = 0; i < masters.size(); ++i) {
    ASSERT_NEAR(arena.masters[i], masters[i], 1e-6) << i;
    ASSERT_NEAR(widened(arena.weights[i]), arena.masters[i], std::fabs(arena.masters[i]) / 256) << i;
  }
}

// Of gradients of which no sum in fp32 is right: each of the small ones is below the last bit of the large one.
TEST(Adamw, SquaresAreSummedInDoubleInOneOrder) {
  std::vector<float> gradients(1'000'003, 1e-3f);
  gradients[500'000] = 1000;
  gradients.back() = 0.5f;
  long double exact = 0;
  for (const float value : gradients) exact += static_cast<long double>(value) * value;
  const auto expected = static_cast<double>(exact);
  const double found = gradient_squares(gradients.data(), std::ssize(gradients));
  EXPECT_NEAR(found, expected, 1e-12 * expected);
  EXPECT_EQ(gradient_squares(gradients.data(), 0), 0);
  for (const int64_t threads : {1, 2, 3, 8}) {
    const ThreadPool pool(threads);
    EXPECT_EQ(gradient_squares(gradients.data(), std::ssize(gradients)), found) << threads << " threads";
  }
}

// However the work is divided, in vectors or one by one: the bits of the formula that a GPU computes, too.
TEST(Adamw, GivesTheSameBitsInAnyParts) {
  Arena whole, parts, single;
  for (uint64_t step = 1; step <= 3; ++step) {
    for (Arena* arena : {&whole, &parts, &single}) arena->draw(step);
    adamw(whole.args());
    for (int64_t from = 0, count = 1; from < Arena::kCount; from += count, count = count * 3 % 1009 + 1) {
      AdamwArgs args = parts.args();
      args.place = from;
      args.count = std::min(count, Arena::kCount - from);
      args.gradients = parts.gradients.data() + from;
      args.weights += from;
      args.master += from;
      args.first = parts.first.data() + from;
      args.second = parts.second.data() + from;
      adamw(args);
    }
    const AdamwArgs args = single.args();
    const gpu::AdamwFactors factors = gpu::factors_of(single.state, args);
    for (int64_t i = 0; i < Arena::kCount; ++i) {
      const auto at = static_cast<size_t>(i);
      const float keep = gpu::kept(args, i < 33'331 ? 0.1f : i < 33'350 ? 0.0f : 0.2f);
      gpu::adamw_element<gpu::ExactMaths>(factors, keep, single.gradients[at], single.first[at], single.second[at],
                                          single.masters[at]);
    }
  }
  EXPECT_EQ(whole.masters, parts.masters);
  EXPECT_EQ(whole.weights, parts.weights);
  EXPECT_EQ(whole.first, parts.first);
  EXPECT_EQ(whole.second, parts.second);
  EXPECT_EQ(whole.masters, single.masters);
  EXPECT_EQ(whole.second, single.second);
}

TEST(Adamw, ANonFiniteNormChangesNothingAndMastersMayBeTheWeights) {
  Arena arena, masters_alone;
  for (Arena* of : {&arena, &masters_alone}) of->draw(1);
  AdamwArgs args = masters_alone.args();
  args.weights = nullptr;
  adamw(arena.args());
  adamw(args);
  EXPECT_EQ(arena.masters, masters_alone.masters);
  EXPECT_EQ(masters_alone.weights, std::vector<gpu::Bf16>(Arena::kCount));

  const std::vector<float> before = arena.masters;
  for (const float squares : {INFINITY, NAN}) {
    arena.state.squares = squares;
    gpu::decide(arena.state, arena.args());
    EXPECT_EQ(arena.state.skipped, 1);
    EXPECT_EQ(arena.state.steps, 1);
    adamw(arena.args());
    EXPECT_EQ(arena.masters, before);
  }
}

}  // namespace
}  // namespace tritonforge::kernels
