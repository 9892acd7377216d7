#include "parallel/peer_copies.h"

#include <gtest/gtest.h>

namespace tritonforge::parallel {
namespace {

TEST(Pieces, FollowEachOtherAndAreTheWhole) {
  for (const int64_t count : {0, 1, 127, 128, 129, 1000}) {
    for (const int64_t longest : {1, 128, 5000}) {
      const Share whole{256, count};
      int64_t next = whole.begin;
      for (const Share& piece : pieces_of(whole, longest)) {
        EXPECT_EQ(piece.begin, next);
        EXPECT_GT(piece.count, 0);
        EXPECT_LE(piece.count, longest);
        next += piece.count;
      }
      EXPECT_EQ(next, whole.begin + count);
      EXPECT_EQ(std::ssize(pieces_of(whole, longest)), (count + longest - 1) / longest);
    }
  }
}

}  // namespace
}  // namespace tritonforge::parallel
