#include "train/weight_shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "train/gather_tensor.h"
#include "unit/parallel/run_ranks.h"

namespace tritonforge::train {
namespace {

using parallel::ParallelDims;

model::ModelConfig qwen3_8b() {
  const fs::path file = fs::path(TF_SOURCE_DIR) / "recipes/shapes/qwen3-8b.json";
  return model::model_config_from_json(parse_json(read_file(file), file.string()), file.string());
}

TEST(WeightShards, EachTensorIsInOneFileAndRanksOfAStageHaveAlikeManyBytes) {
  model::ModelConfig shape = qwen3_8b();
  for (const bool tied : {false, true}) {
    shape.tie_embeddings = tied;
    std::map<std::string, int64_t> expected;
    for (const auto& [name, tensor] : model::Model(shape, at::kBFloat16, at::kMeta).named_parameters())
      expected[name] = static_cast<int64_t>(tensor.nbytes());
    for (const ParallelDims& dims : {ParallelDims{}, ParallelDims{.dp = 3}, ParallelDims{.tp = 2, .cp = 4},
                                     ParallelDims{.pp = 4}, ParallelDims{.tp = 2, .pp = 2, .pp_chunks = 2, .dp = 2}}) {
      std::map<std::string, int64_t> found;
      std::vector<int64_t> bytes(static_cast<size_t>(dims.world()));
      for (const model::WeightFile& file : shard_files(shape, at::kBFloat16, dims)) {
        int64_t in_file = 0;
        for (const auto& [name, tensor] : file.tensors) {
          EXPECT_TRUE(found.emplace(name, tensor.nbytes()).second) << name << " twice";
          in_file += static_cast<int64_t>(tensor.nbytes());
        }
        EXPECT_LE(in_file, 5'000'000'000);
        bytes.at(static_cast<size_t>(file.writer)) += in_file;
      }
      EXPECT_EQ(found, expected);
      for (int64_t stage = 0; stage < dims.pp; ++stage) {
        const int64_t ranks = dims.world() / dims.pp;
        const auto [least, most] = std::minmax_element(bytes.begin() + stage * ranks,
                                                       bytes.begin() + (stage + 1) * ranks);
        EXPECT_LT(static_cast<double>(*most), 1.25 * static_cast<double>(*least));
      }
    }
  }
}

// A file's number counts files, and who has no tensor has no file.
TEST(WeightShards, MoreRanksThanTensorsAreNoMatter) {
  model::ModelConfig shape = qwen3_8b();
  shape.num_layers = 1;
  const model::WeightFiles files = shard_files(shape, at::kBFloat16, {.dp = 32});
  ASSERT_EQ(files.size(), 14u);
  EXPECT_EQ(files.back().name, "model-00014-of-00014.safetensors");
  EXPECT_EQ(shard_bytes(files, 31), 0);
}

// Of more than one piece, by rows and by columns, in memory of the shard's own.
TEST(WeightShards, PartsBecomeTheWholePieceByPiece) {
  const at::Tensor rows = at::randn({90'000, 160}), columns = at::randn({45'000, 320});
  parallel::run_ranks({.tp = 2}, [&](parallel::World& world) {
    parallel::Group& tp = *world.groups().tp;
    for (const auto& [name, whole] : {std::pair{"model.layers.0.mlp.up_proj.weight", rows},
                                      std::pair{"model.layers.0.mlp.down_proj.weight", columns}}) {
      const int64_t dim = whole.equal(columns) ? 1 : 0, half = whole.size(dim) / 2;
      const at::Tensor mine = whole.narrow(dim, tp.rank() * half, half).contiguous(), to = at::zeros_like(whole);
      const auto pieces = pieces_of(name, mine, tp.size());
      EXPECT_GT(pieces.size(), 1u);
      for (const TensorRows& piece : pieces) put(piece, gather(piece, tp), to);
      EXPECT_TRUE(at::equal(to, whole)) << name;
    }
  });
}

}  // namespace
}  // namespace tritonforge::train
