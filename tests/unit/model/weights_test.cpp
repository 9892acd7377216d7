#include "model/weights.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/json.h"
#include "model/tensor_parallel.h"
#include "unit/model/small_models.h"

namespace tritonforge::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_models::small_config;
using testing_models::small_model;

// The message of the error that `action` throws, with its kind in front.
template <typename Action>
std::string failure(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(name_of(error.kind())) + ": " + error.what();
  }
  return "no error";
}

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

class Safetensors : public ::testing::Test {
 protected:
  fs::path write(const std::string& content) {
    const auto path = folder_.path() / "x.safetensors";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string opening(const std::string& content) {
    const auto path = write(content);
    return failure([&] { SafetensorsFile file(path); });
  }
  TemporaryFolder folder_{"tritonforge-test"};
};

TEST_F(Safetensors, RoundTripOfMixedDtypes) {
  const auto path = folder_.path() / "mixed.safetensors";
  const std::vector<std::pair<std::string, at::Tensor>> tensors{{"half", at::randn({3}).to(at::kBFloat16)},
                                                                {"full", at::randn({2, 3})},
                                                                {"scalar", at::scalar_tensor(2.5)},
                                                                {"empty", at::empty({0, 4})},
                                                                {"ids", at::arange(5)},
                                                                {"transposed", at::randn({3, 4}).t()}};
  const auto sums = save_safetensors(tensors, path, {{"step", "12"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("step"), "12");
  EXPECT_EQ(file.names().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(at::equal(file.tensor(name), tensor)) << name;
    EXPECT_EQ(file.tensor(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(sums.at(name).size(), 16u);
  }
}

TEST_F(Safetensors, ReadsTensorsThatAreNotAligned) {
  const float value = 3.25f;
  const auto path = write(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )",
                                  std::string(reinterpret_cast<const char*>(&value), 4)));
  EXPECT_EQ(SafetensorsFile(path).tensor("a").item<float>(), value);
}

TEST_F(Safetensors, TruncatedFilesAreNamed) {
  EXPECT_THAT(opening("abc"),
              AllOf(HasSubstr("corrupt: "), HasSubstr("x.safetensors"), HasSubstr("truncated: 3 bytes")));
  EXPECT_THAT(opening(file_of("{}", "").substr(0, 9)),
              HasSubstr("truncated inside the header: expected 10 bytes, found 9"));
  EXPECT_THAT(opening(file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234")),
              AllOf(HasSubstr("tensor 'w'"), HasSubstr("ends at byte 8"), HasSubstr("only 4")));
}

TEST_F(Safetensors, WrongHeadersAreNamed) {
  EXPECT_THAT(opening(file_of("{nonsense", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(opening(file_of("[1]", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(opening(std::string(8, '\xff')), HasSubstr("not a safetensors file?"));
  EXPECT_THAT(opening(file_of(R"({"w":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", "12345678")),
              AllOf(HasSubstr("unsupported"), HasSubstr("'w'"), HasSubstr("dtype 'Q4'"), HasSubstr("BF16")));
  EXPECT_THAT(opening(file_of(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678")),
              AllOf(HasSubstr("expected 12 bytes"), HasSubstr("found 8")));
  EXPECT_THAT(opening(file_of(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", "12345678")),
              HasSubstr("'shape' holds -1"));
  EXPECT_THAT(
      opening(file_of(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", "12345678")),
      HasSubstr("too large"));
  EXPECT_THAT(opening(file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "12345678")),
              HasSubstr("[begin, end]"));
  EXPECT_THAT(opening(file_of(R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", "12345678")),
              HasSubstr("no list 'shape'"));
}

TEST_F(Safetensors, OverlapsHolesAndTrailingBytesAreNamed) {
  EXPECT_THAT(opening(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],)"
                              R"("data_offsets":[4,12]}})",
                              "123456789012")),
              AllOf(HasSubstr("'b' begins at byte 4, expected 8"), HasSubstr("overlaps")));
  EXPECT_THAT(opening(file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678")),
              HasSubstr("hole"));
  EXPECT_THAT(opening(file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "12345678")),
              HasSubstr("but the file has 8"));
}

TEST_F(Safetensors, MissingTensorNamesTheNearest) {
  const auto path = write(file_of(R"({"weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  EXPECT_THAT(failure([&] { SafetensorsFile(path).tensor("weights"); }),
              AllOf(HasSubstr("'weights' is missing"), HasSubstr("did you mean 'weight'")));
}

TEST_F(Safetensors, AFullDiskLeavesTheOldFile) {
  const auto path = folder_.path() / "kept.safetensors";
  save_safetensors({{"a", at::ones({4})}}, path, {});
  struct rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto message = failure([&] { save_safetensors({{"a", at::ones({1 << 16})}}, path, {}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("unavailable: cannot write"), HasSubstr("kept.safetensors")));
  EXPECT_TRUE(at::equal(SafetensorsFile(path).tensor("a"), at::ones({4})));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}), 1);
}

class ModelFolder : public ::testing::Test {
 protected:
  fs::path folder() const { return temporary_.path() / "model"; }
  TemporaryFolder temporary_{"tritonforge-test"};
};

TEST_F(ModelFolder, RoundTripKeepsConfigWeightsAndChecksums) {
  for (const auto family : {Family::kQwen2, Family::kQwen3}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const Model model = small_model(small_config(family), dtype);
      save_model(model, folder());
      const Model again = load_model(folder(), dtype, at::kCPU);
      EXPECT_EQ(to_json(again.config()), to_json(model.config()));
      EXPECT_EQ(weight_checksums(again), weight_checksums(model));
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(temporary_.path()), fs::directory_iterator{}), 1);
}

TEST_F(ModelFolder, ChecksumsAreOfTheBytesHeld) {
  Model model = small_model(small_config(Family::kQwen2));
  save_model(model, folder());
  const auto before = weight_checksums(model);
  model.init_random(8);
  EXPECT_NE(weight_checksums(model), before);
  EXPECT_EQ(load_weights(model, folder()), before);
  EXPECT_EQ(load_weights(model, folder() / "model.safetensors"), before);
  EXPECT_EQ(before.size(), model.named_parameters().size());
  for (auto& [name, tensor] : model.named_parameters()) {  // to the last byte
    const at::NoGradGuard no_grad;
    tensor.view(-1)[-1] += 1;
  }
  for (const auto& [name, sum] : weight_checksums(model)) EXPECT_NE(sum, before.at(name)) << name;
}

TEST_F(ModelFolder, AWrongShapeLeavesTheModelUnchanged) {
  ModelConfig other = small_config(Family::kQwen2);
  other.intermediate_size = 32;
  save_model(small_model(other), folder());
  Model model = small_model(small_config(Family::kQwen2));
  model.init_random(99);
  const auto before = weight_checksums(model);
  EXPECT_THAT(failure([&] { load_weights(model, folder()); }),
              AllOf(HasSubstr("corrupt: "), HasSubstr("model.safetensors"), HasSubstr("mlp.gate_proj.weight"),
                    HasSubstr("expected shape [40, 24], found [32, 24]")));
  EXPECT_EQ(weight_checksums(model), before);
}

TEST_F(ModelFolder, MissingAndUnknownTensorsAreNamed) {
  Model model = small_model(small_config(Family::kQwen2));
  auto tensors = model.named_parameters();
  const auto file = temporary_.path() / "w.safetensors";
  tensors[1].first = "model.layers.0.self_attn.q_proj.weigth";
  save_safetensors(tensors, file, {});
  EXPECT_THAT(failure([&] { load_weights(model, file); }),
              AllOf(HasSubstr("w.safetensors: tensor 'model.layers.0.self_attn.q_proj.weight' is missing"),
                    HasSubstr("q_proj.weigth'?")));
  tensors = model.named_parameters();
  tensors.emplace_back("model.layers.3.mlp.up_proj.weight", at::ones({2}));
  save_safetensors(tensors, file, {});
  EXPECT_THAT(failure([&] { load_weights(model, file); }),
              HasSubstr("'model.layers.3.mlp.up_proj.weight' is not part of this model"));
  tensors.back() = {"lm_head.weight", at::ones({40, 24})};  // a tied model's head, once more
  save_safetensors(tensors, file, {});
  EXPECT_EQ(load_weights(model, file), weight_checksums(model));
}

TEST_F(ModelFolder, ShardsThatAreMissingOrPointOutsideAreNamed) {
  const Model model = small_model(small_config(Family::kQwen3));
  save_model(model, folder());
  fs::rename(folder() / "model.safetensors", folder() / "part.safetensors");
  Json map = Json::object();
  for (const auto& [name, tensor] : model.named_parameters()) map[name] = "part.safetensors";
  const auto index = folder() / "model.safetensors.index.json";
  const auto load = [&] { return load_model(folder(), at::kFloat, at::kCPU); };
  write_file_atomic(index, Json{{"weight_map", map}}.dump());
  EXPECT_EQ(weight_checksums(load()), weight_checksums(model));
  map["model.norm.weight"] = "other.safetensors";
  write_file_atomic(index, Json{{"weight_map", map}}.dump());
  EXPECT_THAT(failure(load),
              AllOf(HasSubstr("not_found"), HasSubstr("'model.norm.weight'"), HasSubstr("other.safetensors")));
  map["model.norm.weight"] = "../part.safetensors";
  write_file_atomic(index, Json{{"weight_map", map}}.dump());
  EXPECT_THAT(failure(load), HasSubstr("points outside the folder"));
  write_file_atomic(index, "[]");
  EXPECT_THAT(failure(load), HasSubstr("no object 'weight_map'"));
}

TEST_F(ModelFolder, WhatIsNoModelIsNamed) {
  EXPECT_THAT(failure([&] { load_model(folder(), at::kFloat, at::kCPU); }), HasSubstr("not_found: no model at"));
  fs::create_directory(folder());
  EXPECT_THAT(failure([&] { load_model(folder(), at::kFloat, at::kCPU); }),
              AllOf(HasSubstr("not_found"), HasSubstr("config.json")));
  write_file_atomic(folder() / "config.json", to_json(small_config(Family::kQwen3)).dump());
  EXPECT_THAT(failure([&] { load_model(folder(), at::kFloat, at::kCPU); }),
              HasSubstr("holds neither model.safetensors nor"));
  write_file_atomic(folder() / "pytorch_model.bin", "x");
  EXPECT_THAT(failure([&] { load_model(folder(), at::kFloat, at::kCPU); }), HasSubstr("pytorch_model.bin is not read"));
}

TEST_F(ModelFolder, GenerationConfigAddsEndTokens) {
  ModelConfig config = small_config(Family::kQwen3);
  config.eos_token_ids = {3};
  save_model(small_model(config), folder());
  write_file_atomic(folder() / "generation_config.json", R"({"eos_token_id": [5, 3]})");
  EXPECT_EQ(read_model_config(folder()).eos_token_ids, (std::vector<int64_t>{3, 5}));
  write_file_atomic(folder() / "generation_config.json", R"({"eos_token_id": 40})");
  EXPECT_THAT(failure([&] { read_model_config(folder()); }),
              HasSubstr("generation_config.json: model config: eos_token_id 40 is outside the vocabulary"));
  write_file_atomic(folder() / "generation_config.json", R"({"eos_token_id": [5, 1.5]})");
  EXPECT_THAT(failure([&] { read_model_config(folder()); }),
              HasSubstr("generation_config.json: field 'eos_token_id' must be an integer of 64 bits, found 1.5"));
}

// Before memory is taken for it: the machine has none for a table of 4 TB.
TEST_F(ModelFolder, AConfigOfAnotherSizeThanTheWeightsIsRefusedByTheTensorsName) {
  ModelConfig config = small_config(Family::kQwen3);
  save_model(small_model(config), folder());
  config.vocab_size = int64_t{1} << 30;
  config.hidden_size = 1024;
  write_file_atomic(folder() / "config.json", to_json(config).dump());
  EXPECT_THAT(failure([&] { load_model(folder(), at::kFloat, at::kCPU); }),
              AllOf(HasSubstr("corrupt: "), HasSubstr("model.safetensors: tensor 'model.embed_tokens.weight': expected "
                                                      "shape [1073741824, 1024]")));
}

TEST(Config, SizesWhoseProductsNoModelHasAreRefusedByName) {
  const auto with = [](const std::vector<std::pair<const char*, Json>>& changes) {
    Json json = to_json(small_config(Family::kQwen3));
    for (const auto& [key, value] : changes) json[key] = value;
    return failure([&] {
      const ModelConfig config = model_config_from_json(json, "x/config.json");
      EXPECT_GT(config.matrix_elements(), 0);
      EXPECT_GE(config.parameter_count(), config.matrix_elements());
    });
  };
  const int64_t large = int64_t{1} << 30;
  EXPECT_EQ(with({{"hidden_size", 1 << 20}, {"vocab_size", 1 << 20}}), "no error");
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"}) {
    for (const int64_t size : {2 * large, int64_t{-1}, int64_t{0}, std::numeric_limits<int64_t>::min()})
      EXPECT_THAT(with({{key, size}}), AllOf(StartsWith("corrupt: x/config.json: "), HasSubstr(key))) << size;
    EXPECT_THAT(with({{key, uint64_t{1} << 63}}), HasSubstr("must be an integer of 64 bits, found 9223372036854775808"))
        << key;
  }
  const std::vector<std::vector<std::pair<const char*, Json>>> products{
      {{"hidden_size", large}, {"vocab_size", large}},
      {{"hidden_size", large}, {"intermediate_size", large}},
      {{"hidden_size", large}, {"num_attention_heads", large / 8}, {"num_key_value_heads", large / 8}},
      {{"hidden_size", large}, {"intermediate_size", large / 4096}, {"num_hidden_layers", 4096}}};
  for (const auto& changes : products) {
    EXPECT_THAT(with(changes), AllOf(StartsWith("corrupt: x/config.json: model config: hidden_size 1073741824, "),
                                     HasSubstr("parameters, more than 2^48")));
  }
  EXPECT_THAT(with({{"eos_token_id", {1, 1e300}}}), HasSubstr("'eos_token_id' must be an integer"));
}

TEST(Config, WhatIsNotImplementedIsRefusedByName) {
  const Json good = to_json(small_config(Family::kQwen3));
  const auto with = [&](const char* key, Json value) {
    Json json = good;
    json[key] = std::move(value);
    return failure([&] { model_config_from_json(json, "config.json"); });
  };
  EXPECT_EQ(with("unknown_but_harmless", 1), "no error");
  EXPECT_THAT(with("model_type", "qwen3_moe"),
              HasSubstr("unsupported: config.json: model_type 'qwen3_moe' is not supported (did you mean 'qwen3'?)"));
  EXPECT_THAT(with("hidden_act", "gelu"), HasSubstr("hidden_act 'gelu'"));
  EXPECT_THAT(with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}), HasSubstr("rope scaling 'yarn'"));
  EXPECT_EQ(with("rope_scaling", {{"rope_type", "default"}}), "no error");
  EXPECT_THAT(with("rope_scaling", {{"factor", 4}}), HasSubstr("'rope_scaling' has 'factor' and no 'rope_type'"));
  EXPECT_THAT(with("rope_parameters", {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}}}),
              HasSubstr("'rope_parameters' has 'full_attention' and no 'rope_type'"));
  EXPECT_THAT(with("layer_types", {"full_attention", "sliding_attention"}), HasSubstr("sliding_attention"));
  EXPECT_THAT(with("quantization_config", {{"bits", 4}}), HasSubstr("quantization_config"));
  EXPECT_THAT(with("num_key_value_heads", 3), HasSubstr("not a multiple"));
  EXPECT_THAT(with("hidden_size", "big"), HasSubstr("'hidden_size' must be an integer"));
  EXPECT_THAT(with("hidden_size", 0), HasSubstr("config.json: model config: hidden_size must be between"));
  EXPECT_THAT(with("head_dim", 7), HasSubstr("head_dim must be even"));
  Json json = good;
  json.erase("num_hidden_layers");
  json["num_hiden_layers"] = 3;
  EXPECT_THAT(failure([&] { model_config_from_json(json, "config.json"); }),
              HasSubstr("'num_hidden_layers' is missing (did you mean 'num_hiden_layers'?)"));
  json = good;
  json["use_sliding_window"] = true;
  json["sliding_window"] = 16;
  json["max_window_layers"] = 2;
  EXPECT_THAT(failure([&] { model_config_from_json(json, "config.json"); }), HasSubstr("sliding window"));
  json.erase("sliding_window");  // which transformers takes for 4096
  EXPECT_THAT(failure([&] { model_config_from_json(json, "config.json"); }), HasSubstr("sliding_window 4096"));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(failure([&] { model_config_from_json(json, "config.json"); }), "no error");
  json["sliding_window"] = 16;
  json["max_window_layers"] = 3;
  EXPECT_EQ(failure([&] { model_config_from_json(json, "config.json"); }), "no error");
}

TEST(Config, EndTokensAreOfTheWholeVocabularyNotOfARanksRowsOfIt) {
  ModelConfig config = small_config(Family::kQwen3);
  config.eos_token_ids = {config.vocab_size - 1};
  EXPECT_EQ(failure([&] { Model part(part_of(config, 2), at::kFloat, at::kCPU); }), "no error");
  config.eos_token_ids = {config.vocab_size};
  EXPECT_THAT(failure([&] { model_config_from_json(to_json(config), "config.json"); }),
              HasSubstr("config.json: model config: eos_token_id 40 is outside the vocabulary of 40"));
}

TEST(Config, RopeThetaOfBothTransformersVersions) {
  Json json = to_json(small_config(Family::kQwen2));
  json["rope_theta"] = 12345.0;
  EXPECT_EQ(model_config_from_json(json, "c").rope_theta, 12345.0);
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_theta", 777.0}, {"rope_type", "default"}};
  EXPECT_EQ(model_config_from_json(json, "c").rope_theta, 777.0);
}

}  // namespace
}  // namespace tritonforge::model
