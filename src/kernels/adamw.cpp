#include "kernels/adamw.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/fused_rows.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {

void adamw(const gpu::AdamwArgs& args) {
  if (args.state->skipped != 0) return;
  const gpu::AdamwFactors factors = gpu::factors_of(*args.state, args);
  const int64_t* end = args.begins + args.tensors;
  const auto* gradients = static_cast<const float*>(args.gradients);
  auto *first = static_cast<float*>(args.first), *second = static_cast<float*>(args.second);
  over_threads(args.count, kAdamwGrain, [&](int64_t from, int64_t to) {
    while (from < to) {  // tensor by tensor
      const int64_t* next = std::upper_bound(args.begins + 1, end, args.place + from);
      const int64_t until = next == end ? to : std::min(to, *next - args.place);
      const float keep = gpu::kept(args, args.decays[next - args.begins - 1]);
      adamw_row(factors, keep, gradients + from, first + from, second + from, args.master + from,
                args.weights == nullptr ? nullptr : args.weights + from, until - from);
      from = until;
    }
  });
}

double gradient_squares(const float* gradients, int64_t count) {
  constexpr int64_t kBlock = kAdamwGrain;
  std::vector<double> sums(static_cast<size_t>((count + kBlock - 1) / kBlock));
  over_threads(std::ssize(sums), 1, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      const int64_t begin = block * kBlock;
      sums[static_cast<size_t>(block)] = sum_of_squares(gradients + begin, std::min(kBlock, count - begin));
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace tritonforge::kernels
