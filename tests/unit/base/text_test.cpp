#include "base/text.h"

#include <gtest/gtest.h>

namespace tritonforge {
namespace {

std::string every_byte() {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  return every;
}

TEST(Text, LettersOfAsciiAreLoweredAndNothingElse) {
  EXPECT_EQ(lowered("Content-TYPE [@`{]"), "content-type [@`{]");
  const std::string every = every_byte(), low = lowered(every);
  ASSERT_EQ(low.size(), every.size());
  for (size_t i = 0; i < every.size(); ++i)
    EXPECT_EQ(low[i] != every[i], every[i] >= 'A' && every[i] <= 'Z') << "byte " << i;
}

TEST(Text, OfManyNamesTheFirstOnesAreSaid) {
  EXPECT_EQ(first_of({"a", "b"}, 2), "a, b");
  EXPECT_EQ(first_of({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

TEST(Text, AnyBytesAreOneSegmentOfAPathAndComeBack) {
  EXPECT_EQ(percent_encode("lease-bench-rl-l1_19.a~"), "lease-bench-rl-l1_19.a~");
  EXPECT_EQ(percent_encode("a/b c%d?#+é"), "a%2Fb%20c%25d%3F%23%2B%C3%A9");
  EXPECT_EQ(percent_decode(percent_encode(every_byte()), false), every_byte());
}

}  // namespace
}  // namespace tritonforge
