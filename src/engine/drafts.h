#pragma once
// Prompt lookup: what a sequence may say next, from what it holds already. A model that repairs its last answer says
// most of it again.
#include <cstdint>
#include <span>
#include <vector>

namespace tritonforge::engine {

constexpr int64_t kShortestMatch = 3, kLongestMatch = 16;  // tokens

// At most `count` tokens, into `drafts`: those after the place where the most of the last tokens stood before (the
// last one of such places). None where fewer than kShortestMatch stood anywhere; agreeing in kLongestMatch is as good
// as in more. Where the place is so near the end that the tokens after it run out, they repeat.
void look_up_drafts(std::span<const int64_t> tokens, int64_t count, std::vector<int64_t>& drafts);

}  // namespace tritonforge::engine
