#include "base/hub.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace tritonforge {
namespace {

void expect_name(const std::string& text, const std::string& id, const std::string& revision, const std::string& file,
                 bool dataset = false, const std::string& endpoint = "") {
  const auto name = parse_hub_name(text);
  ASSERT_TRUE(name) << text;
  EXPECT_EQ(name->id, id) << text;
  EXPECT_EQ(name->revision, revision) << text;
  EXPECT_EQ(name->file, file) << text;
  EXPECT_EQ(name->dataset, dataset) << text;
  EXPECT_EQ(name->endpoint, endpoint) << text;
}

TEST(Hub, ReadsNamesAndUrls) {
  expect_name("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "main", "");
  expect_name("Qwen/Qwen3-8B@v1/a/b.gguf", "Qwen/Qwen3-8B", "v1", "a/b.gguf");
  expect_name("datasets/GPUMODE/KernelBook/data.parquet", "GPUMODE/KernelBook", "main", "data.parquet", true);
  expect_name("https://huggingface.co/Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "main", "");
  expect_name("https://huggingface.co/Qwen/Qwen3-8B/tree/main?x=1", "Qwen/Qwen3-8B", "main", "");
  expect_name("https://hf-mirror.com/datasets/a/b/resolve/abc/c/d.jsonl", "a/b", "abc", "c/d.jsonl", true,
              "https://hf-mirror.com");
}

TEST(Hub, TakesNoPathForAName) {
  for (const char* text : {"", "/", "model", "/root/models/tiny", "../../etc", "a/..", "a/b/../../../c", "./a", "a//b",
                           "a/b@", "a/b c", "a/$(x)", "https://huggingface.co", "https://huggingface.co/a",
                           "https://huggingface.co/a/b/tree", "ftp://x/a/b", "datasets/a"})
    EXPECT_FALSE(parse_hub_name(text)) << text;
}

TEST(Hub, WritesANameAsItReadsIt) {
  for (const char* text : {"a/b", "a/b@v1", "datasets/a/b@v1/c/d", "a/b/c.gguf"})
    EXPECT_EQ(parse_hub_name(text)->text(), text);
}

TEST(Hub, FindsWhatTheCacheHolds) {
  const TemporaryFolder cache("hub");
  ::setenv("HF_HUB_CACHE", cache.path().c_str(), 1);
  const fs::path model = cache.path() / "models--a--b";
  fs::create_directories(model / "snapshots" / "c0ffee");
  fs::create_directories(model / "refs");
  fs::create_directories(model / "blobs");
  write_file_atomic(model / "refs" / "main", "c0ffee\n");
  write_file_atomic(model / "snapshots" / "c0ffee" / "config.json", "{}");
  EXPECT_EQ(cached(*parse_hub_name("a/b")), model / "snapshots" / "c0ffee");
  EXPECT_EQ(cached(*parse_hub_name("a/b@c0ffee/config.json")), model / "snapshots" / "c0ffee" / "config.json");
  EXPECT_FALSE(cached(*parse_hub_name("a/b/model.safetensors")));
  EXPECT_FALSE(cached(*parse_hub_name("a/b@other")));
  EXPECT_FALSE(cached(*parse_hub_name("datasets/a/b")));
  ASSERT_EQ(cached_repositories().size(), 1u);
  EXPECT_TRUE(cached_repositories()[0].complete);
  EXPECT_EQ(cached_repositories()[0].bytes, 2u);
  write_file_atomic(model / "blobs" / "abc.incomplete", "");
  EXPECT_FALSE(cached_repositories()[0].complete);
  ::unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace tritonforge
