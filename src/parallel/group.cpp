#include "parallel/group.h"

namespace tritonforge::parallel {

Share share_of(int64_t count, int64_t ranks, int64_t rank) {
  constexpr int64_t kElements = 128;
  const int64_t equal = count / ranks / kElements * kElements;
  return {rank * equal, rank + 1 < ranks ? equal : count - rank * equal};
}

}  // namespace tritonforge::parallel
