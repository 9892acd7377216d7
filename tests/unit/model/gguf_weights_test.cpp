#include "model/gguf_weights.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <limits>

#include "base/error.h"
#include "kernels/ggml_types.h"
#include "model/weights.h"
#include "unit/model/small_models.h"

namespace tritonforge::model {
namespace {

using kernels::dequantise;
using kernels::find_ggml_type;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Writes GGUF version 3 field by field, so that each fault can be made.
class GgufWriter {
 public:
  void text(const std::string& key, const std::string& value) {
    put_text(keys_, key), put<uint32_t>(keys_, 8), put_text(keys_, value), ++key_count_;
  }
  void integer(const std::string& key, uint32_t value) {
    put_text(keys_, key), put<uint32_t>(keys_, 4), put(keys_, value), ++key_count_;
  }
  void number(const std::string& key, float value) {
    put_text(keys_, key), put<uint32_t>(keys_, 6), put(keys_, value), ++key_count_;
  }
  void tensor(const std::string& name, std::vector<int64_t> shape, uint32_t type, const std::string& bytes) {
    put_text(tensors_, name);
    put<uint32_t>(tensors_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) put<uint64_t>(tensors_, static_cast<uint64_t>(shape[i]));
    put(tensors_, type);
    put<uint64_t>(tensors_, data_.size());
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++tensor_count_;
  }
  void write(const fs::path& path) const {
    std::string head = "GGUF";
    put<uint32_t>(head, 3), put<uint64_t>(head, tensor_count_), put<uint64_t>(head, key_count_);
    head += keys_ + tensors_;
    head.resize((head.size() + 31) / 32 * 32);
    std::ofstream(path, std::ios::binary) << head << data_;
  }

 private:
  template <typename T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_text(std::string& out, const std::string& text) { put<uint64_t>(out, text.size()), out += text; }
  std::string keys_, tensors_, data_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
};

const std::map<std::string, std::string> kNames{{"model.embed_tokens.weight", "token_embd.weight"},
                                                {"model.norm.weight", "output_norm.weight"},
                                                {"lm_head.weight", "output.weight"}};

std::string gguf_name(const std::string& name) {
  if (const auto found = kNames.find(name); found != kNames.end()) return found->second;
  static const std::vector<std::pair<std::string, std::string>> parts{
      {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
      {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (const auto& [ours, theirs] : parts) {
    const auto at = name.find("." + ours + ".");
    if (at != std::string::npos)
      return "blk" + name.substr(12, at - 12) + "." + theirs + name.substr(at + ours.size() + 1);
  }
  return name;
}

std::string bytes_of(const at::Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
}

class GgufModel : public ::testing::Test {
 protected:
  // A whole model as F32, except where `change` writes something else and returns true.
  using Change = std::function<bool(GgufWriter&, const std::string& name, const at::Tensor& tensor)>;
  fs::path write(
      const Model& model, const Change& change = [](auto&, auto&, auto&) { return false; },
      const std::string& extra_key = "") {
    const auto& c = model.config();
    const std::string arch = c.family == Family::kQwen3 ? "qwen3" : "qwen2";
    GgufWriter out;
    out.text("general.architecture", arch);
    const std::pair<const char*, int64_t> sizes[] = {{"embedding_length", c.hidden_size},
                                                     {"feed_forward_length", c.intermediate_size},
                                                     {"block_count", c.num_layers},
                                                     {"attention.head_count", c.num_heads},
                                                     {"attention.head_count_kv", c.num_kv_heads},
                                                     {"attention.key_length", c.head_dim},
                                                     {"attention.value_length", c.head_dim},
                                                     {"context_length", c.max_position}};
    for (const auto& [key, value] : sizes) out.integer(arch + "." + key, static_cast<uint32_t>(value));
    out.number(arch + ".attention.layer_norm_rms_epsilon", static_cast<float>(c.rms_norm_eps));
    out.number(arch + ".rope.freq_base", static_cast<float>(c.rope_theta));
    if (!extra_key.empty()) out.text(arch + "." + extra_key, "yarn");
    for (const auto& [name, tensor] : model.named_parameters()) {
      if (!change(out, gguf_name(name), tensor)) out.tensor(gguf_name(name), tensor.sizes().vec(), 0, bytes_of(tensor));
    }
    const auto path = folder_.path() / "m.gguf";
    out.write(path);
    return path;
  }
  std::string loading(const fs::path& path) {
    try {
      load_model(path, at::kFloat, at::kCPU);
    } catch (const Error& error) {
      return std::string(name_of(error.kind())) + ": " + error.what();
    }
    return "no error";
  }
  TemporaryFolder folder_{"tritonforge-test"};
};

TEST_F(GgufModel, EveryTensorOfBothFamiliesFindsItsPlace) {
  for (const auto family : {Family::kQwen2, Family::kQwen3}) {
    const Model model = testing_models::small_model(testing_models::small_config(family));
    const Model loaded = load_model(write(model), at::kFloat, at::kCPU);
    EXPECT_EQ(weight_checksums(loaded), weight_checksums(model));
    EXPECT_EQ(loaded.config().tie_embeddings, model.config().tie_embeddings);
    EXPECT_EQ(loaded.config().head_dim, model.config().head_dim);
    EXPECT_NEAR(loaded.config().rms_norm_eps, model.config().rms_norm_eps, 1e-12);
  }
}

TEST_F(GgufModel, HalfTypesAreConverted) {
  const Model model = testing_models::small_model(testing_models::small_config(Family::kQwen3));
  const auto path = write(model, [](GgufWriter& out, const std::string& name, const at::Tensor& tensor) {
    const bool brain = name == "blk.0.ffn_up.weight";
    if (!brain && name != "blk.1.ffn_up.weight") return false;
    out.tensor(name, tensor.sizes().vec(), brain ? 30 : 1, bytes_of(tensor.to(brain ? at::kBFloat16 : at::kHalf)));
    return true;
  });
  const Model loaded = load_model(path, at::kFloat, at::kCPU);
  const auto before = model.named_parameters(), after = loaded.named_parameters();
  for (size_t i = 0; i < before.size(); ++i) {
    at::Tensor expected = before[i].second;
    if (before[i].first == "model.layers.0.mlp.up_proj.weight") expected = expected.to(at::kBFloat16).to(at::kFloat);
    if (before[i].first == "model.layers.1.mlp.up_proj.weight") expected = expected.to(at::kHalf).to(at::kFloat);
    EXPECT_TRUE(at::equal(after[i].second, expected)) << before[i].first;
  }
}

// Blocks of one type with scales that make numbers of about 0.03.
std::string random_blocks(uint32_t number, int64_t count) {
  const auto* type = find_ggml_type(number);
  at::Tensor bytes = at::randint(0, 256, {count / type->block, type->bytes}, at::TensorOptions(at::kByte));
  const double d = number == 8 ? 4e-4 : number == 12 ? 2e-4 : number == 13 ? 1e-4 : number == 14 ? 2e-5 : 4e-3;
  const at::Tensor scales = ((at::rand({count / type->block, 2}) + 0.5) * at::tensor({d, 1.5e-3})).to(at::kHalf);
  const int64_t at = number == 14 ? 208 : 0, halves = number == 12 || number == 13 ? 2 : 1;
  bytes.narrow(1, at, 2 * halves).copy_(scales.narrow(1, 0, halves).contiguous().view(at::kByte));
  return bytes_of(bytes);
}

// A model whose matrices are blocks of every type with a product of its own, and one, F16, that has none.
class StoredModel : public GgufModel {
 protected:
  fs::path write_blocks(Family family, bool tied) {
    ModelConfig config = testing_models::small_config(family);
    config.hidden_size = 256;
    config.intermediate_size = 512;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = 64;
    config.tie_embeddings = tied;
    at::manual_seed(7);
    const std::vector<uint32_t> types{6, 8, 12, 13, 14, 2};
    size_t turn = 0;
    return write(testing_models::small_model(config),
                 [&](GgufWriter& out, const std::string& name, const auto& tensor) {
                   if (tensor.dim() != 2) return false;
                   const bool half = name == "blk.0.ffn_down.weight";
                   const uint32_t type = half ? 1 : types[turn++ % types.size()];
                   out.tensor(name, tensor.sizes().vec(), type,
                              half ? bytes_of(tensor.to(at::kHalf)) : random_blocks(type, tensor.numel()));
                   return true;
                 });
  }
};

// The same forward pass from the blocks and from what they are widened to: log-probs differ by what activations of
// eight bits explain, and nothing else of the model does.
TEST_F(StoredModel, LogProbsAreThoseOfTheWidenedModelButForItsActivations) {
  const at::NoGradGuard no_grad;
  for (const auto family : {Family::kQwen2, Family::kQwen3}) {
    for (const bool tied : {false, true}) {
      const fs::path path = write_blocks(family, tied);
      const Model widened = load_model(path, at::kFloat, at::kCPU), stored = load_stored_model(path);
      EXPECT_GT(stored.stored_bytes(), 0);
      EXPECT_LT(stored.arena().numel(), widened.arena().numel() / 4);
      const int64_t vocab = widened.config().vocab_size;
      const at::Tensor ids = at::randint(0, vocab, {30}, at::kLong), positions = at::arange(30);
      const auto log_probs = [&](const Model& model) {
        return at::log_softmax(model.logits(model.forward(ids, positions, packed_attention({0, 30}))), 1);
      };
      const at::Tensor expected = log_probs(widened), found = log_probs(stored);
      EXPECT_LT((found - expected).abs().mean().item<double>(), 0.02 * expected.std().item<double>());
      EXPECT_GT((found - expected).abs().max().item<double>(), 0);
      EXPECT_TRUE(at::equal(log_probs(stored), found));
    }
  }
}

TEST_F(StoredModel, HoldsTheRestOfItsTensorsInFp32AndNamesThemAlone) {
  const Model stored = load_stored_model(write_blocks(Family::kQwen2, false));
  const Model widened = load_model(write_blocks(Family::kQwen2, false), at::kFloat, at::kCPU);
  const auto all = widened.named_parameters();
  const std::map<std::string, at::Tensor> known(all.begin(), all.end());
  for (const auto& [name, tensor] : stored.named_parameters()) {
    EXPECT_TRUE(tensor.dim() == 1 || name == "model.layers.0.mlp.down_proj.weight") << name;
    EXPECT_TRUE(at::equal(tensor, known.at(name))) << name;
  }
}

TEST_F(StoredModel, HasNoGradients) {
  const Model stored = load_stored_model(write_blocks(Family::kQwen3, true));
  EXPECT_ANY_THROW(stored.forward(at::zeros({2}, at::kLong), at::arange(2), packed_attention({0, 2})));
}

// What load_model refuses is refused in the same words: a file's end, a shape, a missing tensor.
TEST_F(StoredModel, FaultsAreThoseOfTheWidenedModel) {
  const Model model = testing_models::small_model(testing_models::small_config(Family::kQwen3));
  const auto both = [&](const fs::path& path) {
    try {
      load_stored_model(path);
    } catch (const Error& error) {
      const std::string message = std::string(name_of(error.kind())) + ": " + error.what();
      EXPECT_EQ(message, loading(path));
      return message;
    }
    return std::string("no error");
  };
  const auto with_output = [&](uint32_t type, std::vector<int64_t> shape, size_t bytes) {
    return both(write(model, [&](GgufWriter& out, const std::string& name, const at::Tensor&) {
      if (name != "output.weight") return false;
      out.tensor(name, shape, type, std::string(bytes, '\0'));
      return true;
    }));
  };
  EXPECT_THAT(with_output(1, {40, 24}, 96), AllOf(HasSubstr("corrupt: "), HasSubstr("output.weight")));
  EXPECT_THAT(with_output(14, {40, 24}, 4096), HasSubstr("rows of 24 are not whole blocks of 256 (Q6_K)"));
  EXPECT_THAT(with_output(8, {40, 32}, 40 * 34), HasSubstr("expected shape [40, 24], found [40, 32]"));
  EXPECT_THAT(both(write(model, [](auto&, auto& name, auto&) { return name == "blk.1.ffn_up.weight"; })),
              HasSubstr("tensor 'model.layers.1.mlp.up_proj.weight' is missing"));
}

TEST_F(GgufModel, FaultsNameFileTensorExpectedAndFound) {
  const Model model = testing_models::small_model(testing_models::small_config(Family::kQwen3));
  const auto replaced = [&](uint32_t type, std::vector<int64_t> shape, size_t bytes) {
    return loading(write(model, [&](GgufWriter& out, const std::string& name, const at::Tensor&) {
      if (name != "output.weight") return false;  // the last tensor, so that its end is the file's
      out.tensor(name, shape, type, std::string(bytes, '\0'));
      return true;
    }));
  };
  EXPECT_THAT(replaced(16, {40, 24}, 4096),
              AllOf(HasSubstr("unsupported: "), HasSubstr("m.gguf: tensor 'output.weight' has ggml type IQ2_XXS")));
  EXPECT_THAT(replaced(12, {40, 24}, 4096),
              AllOf(HasSubstr("corrupt: "), HasSubstr("rows of 24 are not whole blocks of 256 (Q4_K)")));
  EXPECT_THAT(replaced(0, {40, 32}, 40 * 32 * 4),
              HasSubstr("tensor 'lm_head.weight': expected shape [40, 24], found [40, 32]"));
  EXPECT_THAT(replaced(0, {40, 24}, 96),
              AllOf(HasSubstr("corrupt: "), HasSubstr("m.gguf"), HasSubstr("output.weight")));
  EXPECT_THAT(loading(write(model, [](auto&, auto& name, auto&) { return name == "blk.2.attn_q_norm.weight"; })),
              HasSubstr("tensor 'model.layers.2.self_attn.q_norm.weight' is missing"));
  EXPECT_THAT(loading(write(model,
                            [](GgufWriter& out, auto& name, auto&) {
                              if (name == "output_norm.weight")
                                out.tensor("rope_freqs.weight", {4}, 0, std::string(16, '\0'));
                              return false;
                            })),
              HasSubstr("tensor 'rope_freqs.weight' is not part of this model"));
  EXPECT_THAT(loading(write(
                  model, [](auto&, auto&, auto&) { return false; }, "rope.scaling.type")),
              HasSubstr("rope scaling 'yarn' is not supported"));
  const auto scaled_by = [&](float factor) {
    return loading(write(model, [&](GgufWriter& out, auto& name, auto&) {
      if (name == "output_norm.weight") out.number("qwen3.rope.scaling.factor", factor);
      return false;
    }));
  };
  EXPECT_THAT(scaled_by(4), HasSubstr("rope scaling 'linear' is not supported"));  // what a file means without a type
  EXPECT_EQ(scaled_by(1), "no error");
}

TEST(GgufConfig, SizesThatNoModelHasAreRefusedByTheirKeys) {
  const TemporaryFolder folder("tritonforge-test");
  const std::vector<std::string> keys{"embedding_length", "feed_forward_length", "block_count", "attention.head_count",
                                      "context_length"};
  const auto with = [&](const std::string& changed, uint32_t value, float epsilon = 1e-6f) {
    GgufWriter out;
    out.text("general.architecture", "qwen3");
    for (const std::string& key : keys) out.integer("qwen3." + key, key == changed ? value : 32);
    out.integer("qwen3.attention.key_length", 16);
    out.number("qwen3.attention.layer_norm_rms_epsilon", epsilon);
    out.tensor("token_embd.weight", {40, 32}, 0, "");
    out.write(folder.path() / "m.gguf");
    try {
      model_config_from_gguf(GgufFile(folder.path() / "m.gguf"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(with("", 0), "no error");
  for (const std::string& key : keys) {
    for (const uint32_t value : {uint32_t{0}, uint32_t{1} << 31, ~uint32_t{0}}) {
      EXPECT_THAT(with(key, value), HasSubstr(fmt::format("m.gguf: metadata 'qwen3.{}' must be between 1 and 2^30, "
                                                          "found {}",
                                                          key, value)));
    }
  }
  EXPECT_THAT(with("block_count", 5000), HasSubstr("m.gguf: model config: num_hidden_layers must be at most 4096"));
  EXPECT_THAT(with("", 0, std::numeric_limits<float>::infinity()),
              HasSubstr("m.gguf: model config: rms_norm_eps must be positive and finite, found inf"));
}

TEST(GgmlTypes, AThreadedRunIsTheBlocksOneByOne) {
  for (uint32_t number = 0; number < 40; ++number) {
    const auto* type = find_ggml_type(number);
    if (!type || !type->dequantise) continue;
    const int64_t blocks = 300;
    const at::Tensor bytes = at::randint(0, 60, {blocks * type->bytes}, at::kByte);  // f16 scales stay finite
    const auto* data = bytes.const_data_ptr<uint8_t>();
    at::Tensor expected = at::empty({blocks * type->block});
    for (int64_t i = 0; i < blocks; ++i)
      type->dequantise(data + i * type->bytes, expected.mutable_data_ptr<float>() + i * type->block);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      at::Tensor target = at::empty({blocks * type->block}, dtype);
      dequantise(*type, data, target);
      EXPECT_TRUE(at::equal(target, expected.to(dtype))) << type->name;
    }
  }
}

}  // namespace
}  // namespace tritonforge::model
