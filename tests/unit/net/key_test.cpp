#include "net/key.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace tritonforge::net {
namespace {

// Basic credentials are of `printf NAME:KEY | base64`.
TEST(Key, IsCarriedByBearerAndForReadingByWhatABrowserSends) {
  const std::string key = "open-sesame";
  EXPECT_TRUE(carries_key("Bearer open-sesame", key, false));
  EXPECT_TRUE(carries_key("bEARER open-sesame", key, true));
  EXPECT_TRUE(carries_key("Basic YWRhOm9wZW4tc2VzYW1l", key, true));  // ada:open-sesame
  EXPECT_TRUE(carries_key("basic Om9wZW4tc2VzYW1l", key, true));      // :open-sesame
  EXPECT_FALSE(carries_key("Basic YWRhOm9wZW4tc2VzYW1l", key, false)) << "a browser sends it for other sites' forms";
  for (const char* wrong :
       {"", " ", "Bearer", "Bearer ", "Bearer open-sesam", "Bearer open-sesame ", "Basic", "Basic open-sesame",
        "Basic b3Blbi1zZXNhbWU=", "Basic YWRhOm9wZW4tc2VzYW0=", "Basic =====", "Basic ====", "Digest open-sesame"}) {
    EXPECT_FALSE(carries_key(wrong, key, true)) << wrong;
  }
}

TEST(Key, ComesFromItsFileElseFromTheEnvironment) {
  constexpr char kVariable[] = "TF_A_KEY_OF_THIS_TEST";
  TemporaryFolder folder("tf-key");
  const fs::path file = folder.path() / "key";
  ::unsetenv(kVariable);
  EXPECT_EQ(key_from("", kVariable), "");
  ::setenv(kVariable, "of-the-environment", 1);
  EXPECT_EQ(key_from("", kVariable), "of-the-environment");
  write_file_atomic(file, "  of-the-file\r\n");
  EXPECT_EQ(key_from(file, kVariable), "of-the-file");
  for (const char* none : {"", " \n", "two words\n", "two\nlines\n", "\x01"}) {
    write_file_atomic(file, none);
    try {
      key_from(file, kVariable);
      ADD_FAILURE() << none;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_EQ(std::string(error.what()).find(file.string()), 0u) << error.what();
    }
  }
  try {
    key_from(folder.path() / "absent", kVariable);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound) << error.what();
  }
  ::unsetenv(kVariable);
}

}  // namespace
}  // namespace tritonforge::net
