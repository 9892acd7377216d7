#include "base/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/base/gguf_builder.h"

namespace tritonforge {
namespace {

using testing::GgufBuilder;
using ::testing::HasSubstr;

class Gguf : public ::testing::Test {
 protected:
  fs::path write(const std::string& bytes) {
    const fs::path path = folder_.path() / "x.gguf";
    write_file_atomic(path, bytes);
    return path;
  }
  Error error_of(const std::string& bytes) {
    try {
      GgufFile file(write(bytes));
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::kInternal, "no error");
  }
  TemporaryFolder folder_{"gguf-test"};
};

GgufBuilder good() {
  GgufBuilder b;
  b.header(3, 1, 7);
  b.key("general.alignment", 4).raw<uint32_t>(64);
  b.key("a.text", 8).text("hello");
  b.key("a.float", 6).raw(1.5f);
  b.key("a.bool", 7).raw<uint8_t>(1);
  b.key("a.negative", 11).raw<int64_t>(-5);
  b.texts("a.texts", {"x", "yy"});
  b.integers("a.integers", {1, -2, 3});
  b.tensor("w", {3, 2}, 0, 0);
  b.pad_to(64);
  for (int i = 0; i < 6; ++i) b.raw(static_cast<float>(i));
  return b;
}

TEST_F(Gguf, ReadsMetadataAndTensors) {
  for (const uint32_t version : {2u, 3u}) {
    std::string bytes = good().bytes();
    std::memcpy(bytes.data() + 4, &version, sizeof version);
    const GgufFile file(write(bytes));
    EXPECT_EQ(file.text("a.text"), "hello");
    EXPECT_EQ(file.number("a.float"), 1.5);
    EXPECT_EQ(file.number("a.negative"), -5.0);
    EXPECT_TRUE(file.boolean("a.bool"));
    EXPECT_EQ(file.integer("a.negative"), -5);
    EXPECT_THAT(file.texts("a.texts"), ::testing::ElementsAre("x", "yy"));
    EXPECT_THAT(file.integers("a.integers"), ::testing::ElementsAre(1, -2, 3));
    ASSERT_EQ(file.tensors().size(), 1u);
    EXPECT_THAT(file.tensors()[0].shape, ::testing::ElementsAre(2, 3));
    const auto data = file.data(file.tensors()[0], 24);
    float last;
    std::memcpy(&last, data.data() + 20, 4);
    EXPECT_EQ(last, 5.0f);
  }
}

TEST_F(Gguf, DataPastTheEndNamesTheTensor) {
  const GgufFile file(write(good().bytes()));
  try {
    file.data(file.tensors()[0], 28);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("tensor 'w'"));
  }
  GgufTensor far = file.tensors()[0];
  far.offset = ~0ull - 63;
  EXPECT_THROW(file.data(far, 24), Error);
}

TEST_F(Gguf, MissingAndWronglyTypedKeysAreNamed) {
  const GgufFile file(write(good().bytes()));
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message([&] { file.integer("nope"); }), HasSubstr("'nope' is missing"));
  EXPECT_THAT(message([&] { file.integer("a.text"); }), HasSubstr("'a.text' is not an integer"));
  EXPECT_THAT(message([&] { file.texts("a.integers"); }), HasSubstr("'a.integers' is not an array of texts"));
}

TEST_F(Gguf, EveryTruncationOfTheDirectoryIsRefused) {
  const std::string bytes = good().bytes();
  const size_t directory = bytes.size() - 24;  // the data comes after it
  for (size_t size = 0; size < directory - 63; ++size) {
    const Error error = error_of(bytes.substr(0, size));
    ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << size << ": " << error.what();
    ASSERT_THAT(error.what(), HasSubstr("x.gguf"));
  }
}

TEST_F(Gguf, FaultsAreNamed) {
  EXPECT_THAT(error_of("GGML....").what(), HasSubstr("not a GGUF file"));
  EXPECT_EQ(error_of(GgufBuilder().header(1, 0, 0).bytes()).kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(error_of(GgufBuilder().header(3, 0, 1ull << 60).bytes()).what(), HasSubstr("metadata count"));
  EXPECT_THAT(error_of(GgufBuilder().header(3, 1ull << 60, 0).bytes()).what(), HasSubstr("tensor count"));
  EXPECT_THAT(error_of(GgufBuilder().header(3, 0, 1).key("k", 13).raw<uint64_t>(0).bytes()).what(),
              HasSubstr("unknown type 13"));
  EXPECT_THAT(error_of(GgufBuilder().header(3, 0, 1).key("k", 7).raw<uint64_t>(2).bytes()).what(),
              HasSubstr("truth value of 2"));
  const Error nested = error_of(GgufBuilder().header(3, 0, 1).key("deep", 9).raw<uint32_t>(9).raw<uint64_t>(1).bytes());
  EXPECT_EQ(nested.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(nested.what(), HasSubstr("'deep' is an array of arrays"));
  EXPECT_THAT(
      error_of(GgufBuilder().header(3, 0, 1).key("k", 9).raw<uint32_t>(8).raw<uint64_t>(1ull << 62).bytes()).what(),
      HasSubstr("more than the file can hold"));
  EXPECT_EQ(error_of(GgufBuilder().header(3, 0, 1).key("k", 10).raw<uint64_t>(~0ull).bytes()).kind(),
            ErrorKind::kUnsupported);
  EXPECT_THAT(
      error_of(GgufBuilder().header(3, 0, 2).key("k", 4).raw<uint32_t>(1).key("k", 4).raw<uint32_t>(1).bytes()).what(),
      HasSubstr("'k' comes twice"));
  EXPECT_THAT(error_of(GgufBuilder().header(3, 0, 1).key("general.alignment", 4).raw<uint32_t>(3).bytes()).what(),
              HasSubstr("power of two"));
  EXPECT_THAT(error_of(GgufBuilder().header(3, 1, 0).tensor("w", {4}, 0, 7).pad_to(64).bytes()).what(),
              HasSubstr("multiple of 32"));
  EXPECT_THAT(error_of(GgufBuilder().header(3, 1, 0).tensor("w", {1ull << 40, 1ull << 40}, 0, 0).bytes()).what(),
              HasSubstr("impossible extent"));
  EXPECT_THAT(
      error_of(GgufBuilder().header(3, 1, 0).text("w").raw<uint32_t>(99).raw<uint64_t>(0).raw<uint64_t>(0).bytes())
          .what(),
      HasSubstr("99 dimensions"));
}

}  // namespace
}  // namespace tritonforge
