#include "kernels/block_product.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

// Random bytes as blocks, with scales of a sane size: d and dmin are fp16 fields at places of their own.
struct Stored {
  std::vector<uint8_t> bytes;
  BlockMatrix matrix;
};

void put_half(uint8_t* at, float value) {
  const c10::Half half(value);
  std::memcpy(at, &half, 2);
}

std::vector<uint8_t> random_blocks(const GgmlType& type, int64_t blocks, std::mt19937& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(blocks * type.bytes));
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
  std::uniform_real_distribution<float> scale(-0.02f, 0.03f);
  for (int64_t i = 0; i < blocks; ++i) {
    uint8_t* block = bytes.data() + i * type.bytes;
    if (type.number == 14) {
      put_half(block + 208, scale(random));
    } else {
      put_half(block, scale(random));
      if (type.block == 256) put_half(block + 2, scale(random));
    }
  }
  return bytes;
}

const std::vector<uint32_t> kTypes{2, 6, 8, 12, 13, 14};

Stored stored(const std::vector<uint32_t>& types, const std::vector<int64_t>& rows, int64_t in, uint32_t seed) {
  std::mt19937 random(seed);
  auto memory = std::make_shared<std::vector<std::vector<uint8_t>>>();
  Stored made;
  made.matrix.in = in;
  for (size_t i = 0; i < types.size(); ++i) {
    const GgmlType* type = find_ggml_type(types[i]);
    memory->push_back(random_blocks(*type, rows[i] * in / type->block, random));
    made.matrix.parts.push_back({type, memory->back().data(), rows[i]});
    made.matrix.out += rows[i];
  }
  made.matrix.memory = memory;
  return made;
}

at::Tensor activations(int64_t tokens, int64_t in, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  at::Tensor x = at::empty({tokens, in}, at::kFloat);
  auto* data = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) data[i] = normal(random) * (i % 97 == 0 ? 12.0f : 1.0f);
  if (in >= 64) x.select(0, 0).narrow(0, 32, 32).zero_();
  return x;
}

std::vector<const BlockKernels*> other_kernels() {
  std::vector<const BlockKernels*> all;
  for (const BlockKernels* kernels : {block_kernels_avx2(), block_kernels_avx512()}) {
    if (kernels != nullptr) all.push_back(kernels);
  }
  return all;
}

struct Shape {
  int64_t rows, in, tokens;
};
// One block and an odd number of them, whole 256s; tokens below, at and above what a tile of sums holds.
const std::vector<Shape> kShapes{{1, 32, 1},  {3, 96, 2},  {5, 64, 3},    {7, 256, 8},
                                 {4, 896, 9}, {6, 512, 4}, {9, 1280, 11}, {2, 4864, 19}};

TEST(BlockProduct, HasTheSameBitsFromEveryInstructionSet) {
  for (const uint32_t number : kTypes) {
    for (const Shape& shape : kShapes) {
      if (shape.in % find_ggml_type(number)->block != 0) continue;
      const Stored w = stored({number}, {shape.rows}, shape.in, 7 * number);
      const at::Tensor x = activations(shape.tokens, shape.in, 3), bias = activations(1, shape.rows, 5)[0].contiguous();
      const at::Tensor expected = block_linear(x, w.matrix, bias, block_kernels_baseline());
      for (const BlockKernels* kernels : other_kernels()) {
        EXPECT_TRUE(at::equal(block_linear(x, w.matrix, bias, *kernels), expected))
            << kernels->name << " " << ggml_type_name(number) << " " << shape.rows << " x " << shape.in << ", "
            << shape.tokens << " tokens";
      }
    }
  }
}

// |y - reference| <= sum over blocks of max|x| / 254 * sum of |w|, and a little for fp32 sums.
TEST(BlockProduct, IsWithinItsBoundOfTheWidenedProduct) {
  for (const uint32_t number : kTypes) {
    for (const Shape& shape : kShapes) {
      if (shape.in % find_ggml_type(number)->block != 0) continue;
      const Stored w = stored({number}, {shape.rows}, shape.in, number);
      const at::Tensor x = activations(shape.tokens, shape.in, 11);
      const at::Tensor wide = widened(w.matrix).to(at::kDouble), exact = x.to(at::kDouble);
      const at::Tensor reference = at::matmul(exact, wide.t());
      const at::Tensor largest = exact.abs().view({shape.tokens, -1, 32}).amax(2);
      const at::Tensor sizes = wide.abs().view({shape.rows, -1, 32}).sum(2);
      const at::Tensor bound = at::matmul(largest / 254, sizes.t()) * 1.0001 +
                               at::matmul(exact.abs(), wide.abs().t()) * 1e-6 + 1e-6;
      const at::Tensor off = (block_linear(x, w.matrix, {}).to(at::kDouble) - reference).abs();
      EXPECT_TRUE((off <= bound).all().item<bool>()) << ggml_type_name(number) << " of " << shape.in;
      EXPECT_GT(off.max().item<double>(), 0);
    }
  }
}

TEST(BlockProduct, OfATokenIsItsOwnWhateverElseIsInTheBatch) {
  for (const uint32_t number : kTypes) {
    const Stored w = stored({number}, {5}, 512, number);
    const at::Tensor x = activations(21, 512, 2), together = block_linear(x, w.matrix, {});
    for (int64_t i = 0; i < 21; ++i) {
      EXPECT_TRUE(at::equal(block_linear(x.narrow(0, i, 1), w.matrix, {})[0], together[i])) << ggml_type_name(number);
    }
  }
}

TEST(BlockProduct, DoesNotDependOnThreads) {
  const Stored w = stored({6, 8, 14}, {301, 77, 1500}, 1280, 4);
  for (const int64_t tokens : {1, 5, 300}) {
    const at::Tensor x = activations(tokens, 1280, 9);
    at::Tensor alone;
    {
      const ThreadPool pool(1);
      alone = block_linear(x, w.matrix, {});
    }
    for (const int64_t threads : {2, 3, 5}) {
      const ThreadPool pool(threads);
      EXPECT_TRUE(at::equal(block_linear(x, w.matrix, {}), alone)) << threads;
    }
  }
}

TEST(BlockProduct, OfPartsIsThatOfEachPart) {
  const Stored w = stored({12, 6, 8}, {70, 3, 9}, 256, 4);
  const at::Tensor x = activations(4, 256, 6), bias = activations(1, 82, 1)[0].contiguous();
  const at::Tensor whole = block_linear(x, w.matrix, bias);
  int64_t first = 0;
  for (const auto& part : w.matrix.parts) {
    const BlockMatrix alone{{part}, 256, part.rows, w.matrix.memory};
    EXPECT_TRUE(at::equal(whole.narrow(1, first, part.rows),
                          block_linear(x, alone, bias.narrow(0, first, part.rows).contiguous())));
    first += part.rows;
  }
}

TEST(BlockProduct, OfWhatIsNotFiniteIsNotFinite) {
  for (const BlockKernels* kernels : {&block_kernels_baseline(), &block_kernels()}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const Stored w = stored({8}, {3}, 64, 4);
      at::Tensor x = activations(2, 64, 6);
      x[1][40] = bad;
      const at::Tensor y = block_linear(x, w.matrix, {}, *kernels);
      EXPECT_TRUE(at::isfinite(y[0]).all().item<bool>());
      EXPECT_TRUE(at::isnan(y[1]).all().item<bool>()) << kernels->name;
    }
  }
}

TEST(BlockProduct, OfExtremeActivationsIsExactToTheirScale) {
  const Stored w = stored({6}, {4}, 128, 4);
  const at::Tensor x = at::full({1, 128}, 1e-38f), large = at::full({1, 128}, 3e30f);
  EXPECT_EQ(block_linear(x, w.matrix, {}).abs().max().item<float>(), 0);  // below 1e-30: zero
  const at::Tensor y = block_linear(large, w.matrix, {}), sums = widened(w.matrix).to(at::kDouble).sum(1) * 3e30;
  EXPECT_TRUE(at::allclose(y[0].to(at::kDouble), sums, 1e-4, 1e25));
}

TEST(BlockEmbedding, IsTheWidenedRows) {
  const Stored w = stored({6, 14}, {40, 30}, 256, 8);
  const at::Tensor ids = at::tensor({69, 0, 39, 40, 0}, at::kLong);
  EXPECT_TRUE(at::equal(block_embedding(w.matrix, ids), widened(w.matrix).index_select(0, ids)));
}

}  // namespace
}  // namespace tritonforge::kernels
