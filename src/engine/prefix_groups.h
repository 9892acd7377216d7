#pragma once
// Which sequences of a decode begin with the same blocks of the cache, so that these are read once for all of them
// (kernels/gpu/prefix_attention.cu). The samples of one prompt share its blocks through the prefix cache.
#include <cstdint>
#include <span>
#include <vector>

namespace tritonforge::engine {

// Group g: rows members[starts[g] ... starts[g + 1]), two or more, all of which begin with the same pages[g] blocks.
struct PrefixGroups {
  std::vector<int32_t> members, starts{0};
  std::vector<int64_t> pages;
  int64_t saved = 0;  // blocks that need not be read: the sum of (members - 1) * pages
};

// The groups of at most `most_members` that save the most, a block a member taken off for what merging costs; none
// where that is less than `least_saved` blocks in all. Row i: the blocks that hold tokens before the new one's block.
// Best among groups of neighbours in the tables' sorted order: O(rows * (log rows + most_members)) comparisons.
PrefixGroups group_prefixes(std::span<const std::span<const int32_t>> rows, int64_t most_members, int64_t least_saved);

}  // namespace tritonforge::engine
