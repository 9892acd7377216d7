#include "train/flops.h"

#include <gtest/gtest.h>

namespace tritonforge::train {
namespace {

TEST(TrainingFlops, OfQwen38bAreWhatItsPaperShapeGives) {
  model::ModelConfig c;
  c.num_layers = 36;
  c.hidden_size = 4096;
  c.num_heads = 32;
  c.num_kv_heads = 8;
  c.head_dim = 128;
  c.intermediate_size = 12288;
  c.vocab_size = 151936;
  const std::vector<int64_t> one{1000};
  // A layer: q and o 4096 x 4096 each, k and v 1024 x 4096 each, three of 12288 x 4096. Attention: scores and their
  // product with the values, 2 * 2 * 1000^2 / 2 * 4096 forward, twice that backward.
  const double layer = 4096.0 * (4096 + 4096 + 1024 + 1024 + 3 * 12288), attention = 3 * 2.0 * 1000 * 1000 * 4096;
  EXPECT_DOUBLE_EQ(training_flops(c, one, 10), 36 * (6 * layer * 1000 + attention) + 6 * 4096.0 * 151936 * 10);
  const std::vector<int64_t> packed{500, 500};
  EXPECT_DOUBLE_EQ(training_flops(c, one, 10) - training_flops(c, packed, 10), 36 * attention / 2);
}

}  // namespace
}  // namespace tritonforge::train
