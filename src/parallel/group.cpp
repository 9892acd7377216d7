#include "parallel/group.h"

namespace tritonforge::parallel {

Share share_of(int64_t count, int64_t ranks, int64_t rank, int64_t unit) {
  const int64_t equal = count / ranks / unit * unit;
  return {rank * equal, rank + 1 < ranks ? equal : count - rank * equal};
}

bool is_of_another(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr && ours->kind() == ErrorKind::kUnavailable;
}

}  // namespace tritonforge::parallel
