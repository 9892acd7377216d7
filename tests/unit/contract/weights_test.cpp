#include "contract/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge {
namespace {

using testing::HasSubstr;

std::string complaint(const InstalledWeights& installed, const PublishedWeights& published) {
  try {
    check_installed(installed, published);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    return error.what();
  }
  return "none";
}

TEST(PublishedWeights, ReadAsWritten) {
  const PublishedWeights weights{"/dev/shm/w.safetensors", 4, {{"norm", "12"}, {"head", "ab"}}, {}};
  const PublishedWeights read = published_weights_from_json(parse_json(to_json(weights).dump(), "test"));
  EXPECT_EQ(read.path, weights.path);
  EXPECT_EQ(read.version, 4);
  EXPECT_EQ(read.checksums, weights.checksums);
  EXPECT_FALSE(read.device.has_value());
  EXPECT_THROW(published_weights_from_json({{"path", "x"}}), Error);
}

TEST(ExportedWeights, CarryTheChecksumsBesideThem) {
  const TemporaryFolder folder("exported");
  EXPECT_TRUE(exported_weights(folder.path(), 2).checksums.empty()) << "a folder of somebody else's";
  write_file_atomic(folder.path() / kChecksumsFile, R"({"norm": "12"})");
  const PublishedWeights weights = exported_weights(folder.path(), 2);
  EXPECT_EQ(weights.path, folder.path());
  EXPECT_EQ(weights.version, 2);
  EXPECT_EQ(weights.checksums, (TensorChecksums{{"norm", "12"}}));
  for (const char* damaged : {"{", "[]", R"({"norm": 12})"}) {
    write_file_atomic(folder.path() / kChecksumsFile, damaged);
    try {
      exported_weights(folder.path(), 2);
      FAIL() << damaged;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.what(), HasSubstr("checksums.json: expected an object of texts"));
    }
  }
}

TEST(PublishedWeights, SayWhereTheyLieOnAGpu) {
  PublishedWeights weights{"/dev/shm/w.safetensors", 4, {{"norm", "12"}}, {}};
  weights.device = DeviceWeights{"boot", "GPU-12", "00ff", uint64_t{1} << 40, 16 << 20, "ab"};
  Json json = parse_json(to_json(weights).dump(), "test");
  const PublishedWeights read = published_weights_from_json(json);
  ASSERT_TRUE(read.device.has_value());
  EXPECT_EQ(read.device->host, "boot");
  EXPECT_EQ(read.device->device, "GPU-12");
  EXPECT_EQ(read.device->handle, "00ff");
  EXPECT_EQ(read.device->offset, uint64_t{1} << 40);
  EXPECT_EQ(read.device->bytes, uint64_t{16} << 20);
  EXPECT_EQ(read.device->layout, "ab");
  json["device"].erase("handle");
  EXPECT_THROW(published_weights_from_json(json), Error);
}

TEST(InstalledWeights, MustBeThePublishers) {
  const PublishedWeights published{"/w", 4, {{"norm", "12"}, {"head", "ab"}}, {}};
  const auto installed = [](Json json) { return installed_weights_from_json("http://e:1", json); };
  EXPECT_EQ(complaint(installed({{"weight_version", "4"}, {"checksums", {{"norm", "12"}, {"head", "ab"}}}}), published),
            "none");
  EXPECT_EQ(complaint(installed({{"weight_version", "4"}}), published), "none");  // an engine that computes none
  EXPECT_THAT(complaint(installed({{"weight_version", "3"}}), published),
              HasSubstr("http://e:1 serves weights version 3 instead of 4"));
  EXPECT_THAT(
      complaint(installed({{"weight_version", "4"}, {"checksums", {{"norm", "12"}, {"head", "ff"}}}}), published),
      HasSubstr("tensor 'head' is ff instead of ab"));
  EXPECT_THAT(complaint(installed({{"weight_version", "4"}, {"checksums", {{"norm", "12"}}}}), published),
              HasSubstr("tensor 'head' is missing"));
  EXPECT_THROW(installed({{"weight_version", "four"}}), Error);
}

}  // namespace
}  // namespace tritonforge
