// libs: tf_model
// A GGUF model whose matrices stay in their blocks: any bytes either give a model that computes, or one Error that
// names the file.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "../unit/base/gguf_builder.h"
#include "base/error.h"
#include "kernels/ggml_types.h"
#include "model/weights.h"

using namespace tritonforge;

namespace {

struct SeedTensor {
  const char* name;
  std::vector<uint64_t> extents;  // innermost first
  uint32_t type;
};

// One layer of width 32 with a feed-forward of 256, the smallest that holds a block of every kind.
std::string seed(uint32_t small_type, uint32_t large_type) {
  const std::vector<SeedTensor> tensors{{"token_embd.weight", {32, 5}, small_type},
                                        {"blk.0.attn_norm.weight", {32}, 0},
                                        {"blk.0.attn_q.weight", {32, 32}, small_type},
                                        {"blk.0.attn_q.bias", {32}, 0},
                                        {"blk.0.attn_k.weight", {32, 16}, 8},
                                        {"blk.0.attn_k.bias", {16}, 0},
                                        {"blk.0.attn_v.weight", {32, 16}, small_type},
                                        {"blk.0.attn_v.bias", {16}, 0},
                                        {"blk.0.attn_output.weight", {32, 32}, 1},
                                        {"blk.0.ffn_norm.weight", {32}, 0},
                                        {"blk.0.ffn_gate.weight", {32, 256}, small_type},
                                        {"blk.0.ffn_up.weight", {32, 256}, small_type},
                                        {"blk.0.ffn_down.weight", {256, 32}, large_type},
                                        {"output_norm.weight", {32}, 0}};
  testing::GgufBuilder b;
  b.header(3, tensors.size(), 8);
  b.key("general.architecture", 8).text("qwen2");
  const std::pair<const char*, uint32_t> sizes[] = {
      {"qwen2.embedding_length", 32},    {"qwen2.feed_forward_length", 256},   {"qwen2.block_count", 1},
      {"qwen2.attention.head_count", 2}, {"qwen2.attention.head_count_kv", 1}, {"qwen2.context_length", 64}};
  for (const auto& [name, value] : sizes) b.key(name, 4).raw(value);
  b.key("qwen2.attention.layer_norm_rms_epsilon", 6).raw(1e-6f);
  uint64_t offset = 0;
  for (const SeedTensor& tensor : tensors) {
    const auto* type = kernels::find_ggml_type(tensor.type);
    b.tensor(tensor.name, tensor.extents, tensor.type, offset);
    uint64_t count = 1;
    for (const uint64_t extent : tensor.extents) count *= extent;
    const uint64_t bytes = count / static_cast<uint64_t>(type->block) * static_cast<uint64_t>(type->bytes);
    offset += (bytes + 31) / 32 * 32;
  }
  b.pad_to(32);
  for (uint64_t i = 0; i < offset; ++i) b.raw(static_cast<uint8_t>(i % 37));
  return b.bytes();
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder("stored-model-fuzz",
                                      fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path());
  const fs::path path = folder.path() / "x.gguf";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const at::NoGradGuard no_grad;
    const model::Model model = model::load_stored_model(path);
    const at::Tensor ids = at::zeros({3}, at::kLong), positions = at::arange(3);
    const at::Tensor logits = model.logits(model.forward(ids, positions, model::packed_attention({0, 3})));
    if (logits.size(1) != model.config().vocab_size) return 1;
  } catch (const Error& error) {
    if (std::string(error.what()).find("x.gguf") == std::string::npos) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() { return {seed(8, 12), seed(6, 14), seed(2, 13)}; }
