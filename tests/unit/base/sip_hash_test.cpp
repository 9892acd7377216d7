#include "base/sip_hash.h"

#include <gtest/gtest.h>

#include <string>

namespace tritonforge {
namespace {

// The authors' test vectors: key 00 01 .. 0f, text 00 01 .. (n - 1).
TEST(SipHash, IsTheAuthors) {
  const SipKey key{0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
  std::string text;
  for (char k = 0; k < 15; ++k) text.push_back(k);
  EXPECT_EQ(sip_hash(key, ""), 0x726fdb47dd0e0e31ull);
  EXPECT_EQ(sip_hash(key, text.substr(0, 1)), 0x74f839c593dc67fdull);
  EXPECT_EQ(sip_hash(key, text.substr(0, 8)), 0x93f5f5799a932462ull);
  EXPECT_EQ(sip_hash(key, text), 0xa129ca6149be45e5ull);  // of the paper
}

TEST(SipHash, OfAnotherKeyIsAnother) {
  EXPECT_NE(sip_hash({1, 2}, "trial 0"), sip_hash({1, 3}, "trial 0"));
  EXPECT_NE(sip_hash({1, 2}, "trial 0"), sip_hash({2, 2}, "trial 0"));
}

}  // namespace
}  // namespace tritonforge
