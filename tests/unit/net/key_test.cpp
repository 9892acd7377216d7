#include "net/key.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace tritonforge::net {
namespace {

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
