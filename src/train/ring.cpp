#include "train/ring.h"

namespace tritonforge::train {

Zigzag::Zigzag(std::span<const int64_t> cu_seqlens, int64_t ranks) : chunks_(static_cast<size_t>(ranks)) {
  std::vector<int64_t> rows(static_cast<size_t>(ranks), 0);
  int64_t extra = 0;  // the rank that has the next token of what a sequence's length leaves over
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    const int64_t length = cu_seqlens[s + 1] - cu_seqlens[s], over = length % ranks;
    // Early chunks in the order of the ranks, late ones behind them in the opposite order.
    int64_t early_token = cu_seqlens[s], late_end = cu_seqlens[s + 1];
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t tokens = length / ranks + ((rank + ranks - extra) % ranks < over ? 1 : 0), early = tokens / 2,
                    late = tokens - early;
      int64_t& row = rows[static_cast<size_t>(rank)];
      late_end -= late;
      chunks_[static_cast<size_t>(rank)].push_back({row, early_token, early, late_end, late});
      early_token += early;
      row += tokens;
    }
    extra = (extra + over) % ranks;
  }
}

std::vector<int64_t> Zigzag::tokens_of(int64_t rank) const {
  std::vector<int64_t> tokens;
  for (const Chunks& chunks : of(rank)) {
    for (int64_t t = 0; t < chunks.early; ++t) tokens.push_back(chunks.early_token + t);
    for (int64_t t = 0; t < chunks.late; ++t) tokens.push_back(chunks.late_token + t);
  }
  return tokens;
}

std::vector<Zigzag::Span> Zigzag::spans(int64_t rank, int64_t from) const {
  std::vector<Span> spans;
  for (size_t s = 0; s < of(rank).size(); ++s) {
    const Chunks &mine = of(rank)[s], &theirs = of(from)[s];
    // Of a rank before this one the early chunk lies before both of this one's, and the late one behind them; of a
    // rank behind it both lie between this one's.
    if (from == rank) spans.push_back({mine.row, mine.tokens(), mine.row, mine.tokens()});
    else if (from < rank) spans.push_back({mine.row, mine.tokens(), theirs.row, theirs.early});
    else spans.push_back({mine.row + mine.early, mine.late, theirs.row, theirs.tokens()});
  }
  return spans;
}

}  // namespace tritonforge::train
