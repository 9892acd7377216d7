#include "kernels/card.h"

#include <algorithm>
#include <vector>

namespace tritonforge::bench {
namespace {

constexpr int kReplays = 9;
double copy_rate = 1, matmul_rate = 1;  // bytes/s (read and written), FLOP/s

// Of one launch: `replays` of `work`, which makes `launches`, after some that are not counted.
Timing timed_on(Stream where, int warm_ups, int replays, int launches, const std::function<void()>& work) {
  Event begin = nullptr, end = nullptr;
  check_cuda(api->event_create(&begin, 1));
  check_cuda(api->event_create(&end, 1));
  std::vector<double> times;
  for (int replay = -warm_ups; replay < replays; ++replay) {
    check_cuda(api->event_record(begin, where));
    work();
    check_cuda(api->event_record(end, where));
    check_cuda(api->event_synchronize(end));
    float milliseconds = 0;
    check_cuda(api->event_elapsed(begin, end, &milliseconds));
    if (replay >= 0) times.push_back(milliseconds * 1e-3 / launches);
  }
  check_cuda(api->event_destroy(begin));
  check_cuda(api->event_destroy(end));
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], (times.back() - times.front()) / times[times.size() / 2]};
}

}  // namespace

const CudaApi* api = nullptr;
Stream stream = nullptr;
Gemm* gemm = nullptr;
std::unique_ptr<Arena> inputs, outputs;

Timing timed(int launches, const std::function<void(int)>& launch) {
  Graph graph = nullptr;
  launch(0);
  check_cuda(api->capture_begin(stream));
  for (int i = 0; i < launches; ++i) launch(i);
  check_cuda(api->capture_end(stream, &graph, nullptr));
  const Timing timing = timed_on(stream, 2, kReplays, launches, [&] { check_cuda(api->graph_launch(graph, stream)); });
  check_cuda(api->graph_destroy(graph));
  return timing;
}

Timing timed_on_legacy_stream(int launches, const std::function<void()>& run) {
  return timed_on(nullptr, 1, 5, launches, [&] {
    for (int i = 0; i < launches; ++i) run();
  });
}

void line(const std::string& name, const Timing& t, double bytes, double flops, const std::string& note) {
  const bool by_bytes = bytes / copy_rate >= flops / matmul_rate;
  const double rate = (by_bytes ? bytes : flops) / t.median, share = rate / (by_bytes ? copy_rate : matmul_rate);
  fmt::print("{:46} {:9.2f} us  +-{:4.1f} %  {:7.1f} {}  {:5.1f} %  {}\n", name, t.median * 1e6, t.spread * 50,
             rate * 1e-9 / (by_bytes ? 1 : 1e3), by_bytes ? "GB/s   " : "TFLOP/s", share * 100, note);
  std::fflush(stdout);
}

KvLayer cache_of(Arena& arena, int64_t blocks, bool fp8) {
  const int64_t elements = blocks * kPage * kKvHeads * kDim / (fp8 ? 2 : 1);
  KvLayer cache{arena.take(elements), arena.take(elements)};
  static at::Tensor scales;
  if (!fp8) return cache;
  const int64_t rows = 2 * blocks * kPage * kKvHeads;
  if (!scales.defined() || scales.numel() < rows)
    scales = at::full({rows}, 127, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  cache.scales = scales.data_ptr<uint8_t>();
  return cache;
}

at::Tensor device_ints(const at::Tensor& x) { return x.to(at::kInt).to(at::kCUDA); }

int launches_for(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>((int64_t{200} << 20) / std::max<int64_t>(bytes, 1), 8, 64));
}

Card::Card() {
  kernels::open_device("cuda");
  api = &open_cuda_library();
  check_cuda(api->stream_create(&stream, 0));
  check_cuda(api->set_overlap(1));  // in a chain of equal kernels it hides the launch
  DeviceProperties device;
  check_cuda(api->device_properties(0, &device));
  at::manual_seed(1);
  inputs = std::make_unique<Arena>(int64_t{6} << 30);
  outputs = std::make_unique<Arena>(int64_t{3} << 30);
  gemm_workspace_ = at::zeros({int64_t{32} << 20}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  check_cuda(api->gemm_open(&gemm, gemm_workspace_.data_ptr(), static_cast<size_t>(gemm_workspace_.numel())));
  check_cuda(api->stream_synchronize(nullptr));

  // The card's own rates.
  constexpr int64_t kCopy = int64_t{1} << 30, kSide = 8192;
  copy_rate = 2.0 * kCopy / timed_on_legacy_stream(8, [&] {
                              Bf16* from = inputs->take(kCopy / 2);
                              check_cuda(api->copy(outputs->take(kCopy / 2), from, kCopy, nullptr));
                            }).median;
  const auto cube = [&] {
    return GemmArgs{.y = outputs->take(kSide * kSide),
                    .x = inputs->take(kSide * kSide),
                    .w = inputs->take(kSide * kSide),
                    .m = kSide,
                    .n = kSide,
                    .k = kSide};
  };
  const GemmArgs tuning = cube();
  check_cuda(api->gemm_tune(gemm, &tuning, 1, stream));
  matmul_rate = 2.0 * kSide * kSide * kSide / timed(8, [&](int) {
                                                const GemmArgs a = cube();
                                                check_cuda(api->gemm(gemm, &a, stream));
                                              }).median;
  fmt::print("{}, {} multiprocessors: copies {:.2f} TB/s (read + written), 8192^3 bf16 product {:.0f} TFLOP/s\n",
             device.name, device.multiprocessors, copy_rate * 1e-12, matmul_rate * 1e-12);
}

Card::~Card() {
  api->gemm_close(gemm);
  inputs.reset();  // before the CUDA side of ATen goes
  outputs.reset();
}

}  // namespace tritonforge::bench
