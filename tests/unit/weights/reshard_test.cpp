#include "weights/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/weights.h"

namespace tritonforge::weights {
namespace {

// Heads, vocabulary and MLP that four can share out, layers for two stages of two chunks; biases and a tied or own
// head.
model::ModelConfig config_of(model::Family family, bool tied) {
  model::ModelConfig config;
  config.family = family;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_layers = 5;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 8;
  config.vocab_size = 64;
  config.max_position = 64;
  config.tie_embeddings = tied;
  config.attention_bias = true;
  config.qk_norm = family == model::Family::kQwen3;
  return config;
}

// What the trainer's ranks send, each from its own part, makes the whole model.
void expect_all_arrives(const model::ModelConfig& config, const SourceLayout& trainer, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  model::Model whole(config, dtype, at::kCPU), received(config, dtype, at::kCPU);
  whole.init_random(7);
  std::map<std::string, at::Tensor> targets;
  for (const auto& [name, tensor] : received.named_parameters()) targets.emplace(name, tensor);
  std::map<std::string, int64_t> filled;
  ChecksumShares sums;
  const auto plan = transfer_plan(config, trainer);
  ASSERT_EQ(std::ssize(plan), trainer.sources());
  for (int64_t source = 0; source < trainer.sources(); ++source) {
    const auto at = trainer.tensor_parallel(source);
    model::Model part(model::stage_of(model::part_of(config, at.size), trainer.stage(source)), dtype, at::kCPU);
    model::init_random_part(part, at, 7);
    std::map<std::string, at::Tensor> own;
    for (const auto& [name, tensor] : part.named_parameters()) own.emplace(name, tensor);
    const auto& pieces = plan[static_cast<size_t>(source)];
    const auto tensors = piece_tensors(pieces, dtype, at::zeros({stream_bytes(pieces, dtype)}, at::kByte));
    for (size_t i = 0; i < pieces.size(); ++i) {
      at::Tensor(tensors[i]).copy_(own.at(pieces[i].name));
      pieces[i].of(targets.at(pieces[i].name)).copy_(tensors[i]);
      filled[pieces[i].name] += pieces[i].numel();
    }
    add_checksums(pieces, tensors, sums);
  }
  for (const auto& [name, tensor] : whole.named_parameters()) {
    EXPECT_TRUE(at::equal(targets.at(name), tensor)) << name;
    EXPECT_EQ(filled[name], tensor.numel()) << name;  // each element once
  }
  EXPECT_EQ(checksums_of(sums), model::weight_checksums(whole));
}

TEST(Reshard, AnyLayoutOfATrainerBecomesTheWholeModel) {
  for (const bool tied : {false, true}) {
    const auto config = config_of(tied ? model::Family::kQwen2 : model::Family::kQwen3, tied);
    for (const SourceLayout trainer : {SourceLayout{}, SourceLayout{2, 1, 1}, SourceLayout{4, 1, 1},
                                       SourceLayout{1, 2, 1}, SourceLayout{2, 2, 1}, SourceLayout{1, 2, 2}}) {
      SCOPED_TRACE(fmt::format("tied {}, tp {} pp {} x {}", tied, trainer.tp, trainer.pp, trainer.pp_chunks));
      expect_all_arrives(config, trainer, at::kFloat);
    }
    expect_all_arrives(config, {2, 2, 1}, at::kBFloat16);
  }
}

TEST(Reshard, WhatCannotBeDividedIsSaid) {
  const auto refusal = [](const SourceLayout& trainer) -> std::string {
    try {
      transfer_plan(config_of(model::Family::kQwen3, false), trainer);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal({3, 1, 1}), testing::HasSubstr("num_attention_heads of 8"));
  EXPECT_THAT(refusal({1, 6, 1}), testing::HasSubstr("parallel.pp 6"));
}

TEST(Reshard, AChecksumOfPartsThatAreNoWordsIsRefused) {
  Piece piece{.name = "w", .sizes = {4, 3}, .whole = {4, 6}, .dim = 1};
  ChecksumShares sums;
  try {
    add_checksums({piece}, {at::ones({4, 3})}, sums);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("'w'"));
  }
}

TEST(Reshard, PlansOfOtherModelsHaveOtherChecksums) {
  const auto qwen3 = config_of(model::Family::kQwen3, false);
  auto longer = qwen3;
  longer.vocab_size = 128;
  EXPECT_EQ(plan_checksum(qwen3), plan_checksum(qwen3));
  EXPECT_NE(plan_checksum(qwen3), plan_checksum(longer));
}

}  // namespace
}  // namespace tritonforge::weights
