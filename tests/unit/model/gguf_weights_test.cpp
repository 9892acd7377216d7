#include "model/gguf_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "model/weights.h"
#include "unit/model/small_models.h"

namespace tritonforge::model {
namespace {

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
