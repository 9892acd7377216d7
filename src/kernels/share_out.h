#pragma once
// Long work over bytes for several CPU threads of its own. ATen's parallel_for is none here: it is compiled without
// OpenMP, and whoever calls it stays alone.
#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace tritonforge::kernels {

constexpr int64_t kMostThreads = 8;  // that memory still feeds

// f(begin, end) of parts that cover [0, count), `grain` at least each, at once; f must not throw.
template <typename F>
void share_out(int64_t count, int64_t grain, const F& f) {
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t parts = std::clamp<int64_t>(count / grain, 1, std::min(cores, kMostThreads));
  const auto part = [&](int64_t i) { f(count * i / parts, count * (i + 1) / parts); };
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < parts; ++i) others.emplace_back(part, i);
  part(0);
}

}  // namespace tritonforge::kernels
