#include "weights/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/weights.h"
#include "net/bulk.h"
#include "unit/engine/tiny_model.h"
#include "weights/cuda_ipc.h"

namespace tritonforge::weights {
namespace {

using engine::tiny_model;
using ::testing::HasSubstr;

// A version of the weights that is there as a file and over TCP.
class Transports : public ::testing::Test {
 protected:
  Transports() : folder("transports"), source(tiny_model(7)), server({.key = "run"}) {
    published.version = 3;
    published.path = folder.path() / "w.safetensors";
    published.checksums = model::save_safetensors(source->named_parameters(), published.path, {});
    published.tcp = StreamedWeights{"127.0.0.1", server.port()};
    server.offer(3, published.path);
  }
  Transport& by(std::string_view name) const {
    for (const auto& transport : transports) {
      if (transport->name() == name) return *transport;
    }
    throw std::out_of_range(std::string(name));
  }
  TensorChecksums installed_by(std::string_view name) const {
    const auto model = tiny_model(1);
    install(by(name).stage(*model, published, Deadline::after(10)), at::kFloat);
    return model::weight_checksums(*model);
  }
  std::string error_of(std::string_view name) const {
    const auto model = tiny_model(1);
    const auto before = model::weight_checksums(*model);
    try {
      by(name).stage(*model, published, Deadline::after(10));
    } catch (const Error& error) {
      EXPECT_EQ(model::weight_checksums(*model), before);
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder;
  std::unique_ptr<model::Model> source;
  net::BulkServer server;
  PublishedWeights published;
  std::vector<std::unique_ptr<Transport>> transports = make_transports("run");
};

TEST_F(Transports, EveryWayBringsTheSameBits) {
  EXPECT_EQ(installed_by("file"), published.checksums);
  fs::remove(published.path);  // TCP does not need its name
  EXPECT_EQ(installed_by("tcp"), published.checksums);
}

TEST_F(Transports, WhatIsNotOfferedIsNotTaken) {
  EXPECT_FALSE(by("cuda_ipc").offered(published));
  EXPECT_TRUE(by("file").offered(published) && by("tcp").offered(published));
  published.path.clear();
  published.tcp.reset();
  EXPECT_FALSE(by("file").offered(published) || by("tcp").offered(published));
}

// A placed run shows each process its own GPU alone: which one the trainer's is decides nothing.
TEST(DeviceWeights, AreMappedFromAnyGpuOfTheSameHost) {
  const DeviceWeights weights{ipc_host(), "GPU-1", std::string(128, '0'), 0, 64, "layout"};
  const Mapper here{ipc_host(), {at::kCUDA, 0}, 64, "layout"};
  EXPECT_EQ(why_not_mapped(weights, here), "");
  const auto against = [&](auto change) {
    Mapper other = here;
    change(other);
    return why_not_mapped(weights, other);
  };
  EXPECT_EQ(against([](Mapper& m) { m.host = "beside"; }),
            "they lie on another host or in another container: " + ipc_host() + ", this is beside");
  EXPECT_EQ(against([](Mapper& m) { m.device = at::kCPU; }), "they lie on GPU-1, this engine computes on cpu");
  EXPECT_THAT(against([](Mapper& m) { m.layout = "tp"; }), HasSubstr("of layout tp"));
  EXPECT_THAT(against([](Mapper& m) { m.bytes = 32; }), HasSubstr("64 bytes of layout layout, this engine's are 32"));
}

TEST_F(Transports, WeightsOverTcpThatAreNotThePublishersAreRefused) {
  const std::string name = published.checksums.begin()->first;
  published.checksums.begin()->second = "0123456789abcdef";
  EXPECT_THAT(error_of("tcp"), HasSubstr("tensor '" + name + "' has checksum"));
  write_file_atomic(folder.path() / "text", "no weights");
  server.offer(3, folder.path() / "text");
  EXPECT_THAT(error_of("tcp"), HasSubstr(fmt::format("weights 3 of 127.0.0.1:{}", server.port())));
  published.version = 4;
  EXPECT_THAT(error_of("tcp"), HasSubstr("version 4 is not there"));
}

TEST_F(Transports, AFileOfASizeThatNoWeightsHaveIsNotFetched) {
  const fs::path large = folder.path() / "large";
  write_file_atomic(large, "");
  fs::resize_file(large, uint64_t{1} << 40);
  server.offer(3, large);
  EXPECT_THAT(error_of("tcp"), HasSubstr("this model's weights have at most"));
}

TEST_F(Transports, APartOfTheWeightsIsStagedUnderItsNames) {
  const auto model = tiny_model(1);
  const auto before = model::weight_checksums(*model);
  NamedTensors part{{"model.norm.weight", at::full({32}, 2.0)},
                    {"model.layers.1.mlp.up_proj.weight", at::ones({64, 32})}};
  const StagedWeights staged = stage_part(*model, part, "a test");
  EXPECT_TRUE(staged.part);
  install(staged, at::kFloat);
  auto after = model::weight_checksums(*model);
  EXPECT_NE(after.at("model.norm.weight"), before.at("model.norm.weight"));
  for (const auto& [name, tensor] : part) after[name] = before.at(name);
  EXPECT_EQ(after, before);
  part.front().second = at::ones({31});
  EXPECT_THROW(stage_part(*model, part, "a test"), Error);
  part = {{"model.norm.bias", at::ones({32})}};
  EXPECT_THROW(stage_part(*model, part, "a test"), Error);
}

// Memory of the size that is announced is made for it.
TEST(TiedHead, HasTheEmbeddingsShapeAndComesOnce) {
  model::ModelConfig config = engine::tiny_config();
  config.tie_embeddings = true;
  const model::Model model(config, at::kFloat, at::kCPU);
  const auto error_of = [&](const NamedShapes& shapes) -> std::string {
    try {
      check_part(model, shapes, "a test");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({{"lm_head.weight", {200, 32}}}), "no error");
  EXPECT_EQ(error_of({{"lm_head.weight", {int64_t{1} << 40, 32}}}),
            "a test: tensor 'lm_head.weight' has shape [1099511627776, 32], expected [200, 32]");
  EXPECT_THAT(error_of({{"lm_head.weight", {200, 32}}, {"lm_head.weight", {200, 32}}}), HasSubstr("there twice"));
}

}  // namespace
}  // namespace tritonforge::weights
