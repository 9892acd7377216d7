// Streams, events, graphs, memory, and the loader's refusals.
#include <cstring>

#include "gpu/fixture.h"

namespace tritonforge::gpu {
namespace {

using Runtime = GpuTest;

TEST_F(Runtime, TheDeviceTellsWhatItIs) {
  int count = 0;
  check_cuda(api().device_count(&count));
  ASSERT_GE(count, 1);
  DeviceProperties p;
  check_cuda(api().device_properties(0, &p));
  EXPECT_GE(p.compute_major, 8);
  EXPECT_GT(p.multiprocessors, 0);
  EXPECT_GT(p.l2_bytes, 0);
  EXPECT_GT(std::strlen(p.name), 0u);
  size_t free = 0, total = 0;
  check_cuda(api().memory_info(&free, &total));
  EXPECT_GT(total, free / 2);
}

TEST_F(Runtime, PinnedCopiesAndEventsOrderTwoStreams) {
  void *host = nullptr, *back = nullptr;
  check_cuda(api().allocate_pinned(&host, 4096));
  check_cuda(api().allocate_pinned(&back, 4096));
  std::memset(host, 0x5A, 4096);
  const Buffer there(4096), copy(4096);
  Stream other = nullptr;
  Event ready = nullptr, begin = nullptr, end = nullptr;
  check_cuda(api().stream_create(&other, 1));
  check_cuda(api().event_create(&ready, 0));
  check_cuda(api().event_create(&begin, 1));
  check_cuda(api().event_create(&end, 1));
  check_cuda(api().event_record(begin, stream));
  check_cuda(api().copy(there.as<void>(), host, 4096, stream));
  check_cuda(api().event_record(ready, stream));
  check_cuda(api().stream_wait(other, ready));
  check_cuda(api().copy(copy.as<void>(), there.as<void>(), 4096, other));
  check_cuda(api().copy(back, copy.as<void>(), 4096, other));
  check_cuda(api().event_record(end, other));
  check_cuda(api().event_synchronize(end));
  EXPECT_EQ(std::memcmp(host, back, 4096), 0);
  int done = 0;
  check_cuda(api().event_done(end, &done));
  EXPECT_EQ(done, 1);
  float milliseconds = -1;
  check_cuda(api().event_elapsed(begin, end, &milliseconds));
  EXPECT_GE(milliseconds, 0);
  for (Event event : {ready, begin, end}) check_cuda(api().event_destroy(event));
  check_cuda(api().stream_destroy(other));
  check_cuda(api().release_pinned(host));
  check_cuda(api().release_pinned(back));
}

TEST_F(Runtime, AGraphRepeatsWhatWasCaptured) {
  const Buffer from = upload(ints({1, 2, 3, 4})), to(16);
  Graph graph = nullptr;
  check_cuda(api().capture_begin(stream));
  check_cuda(api().copy(to.as<void>(), from.as<void>(), 16, stream));
  check_cuda(api().capture_end(stream, &graph, nullptr));
  EXPECT_FALSE(at::equal(download(to, {4}, at::kInt), ints({1, 2, 3, 4})));  // captured, not run
  check_cuda(api().graph_launch(graph, stream));
  EXPECT_TRUE(at::equal(download(to, {4}, at::kInt), ints({1, 2, 3, 4})));
  check_cuda(api().graph_destroy(graph));
}

TEST_F(Runtime, AnIpcHandleNamesAnAllocation) {  // opening it takes a second process
  const Buffer memory(1 << 20);
  IpcHandle handle{}, again{};
  check_cuda(api().ipc_get(memory.as<void>(), &handle));
  check_cuda(api().ipc_get(memory.as<void>(), &again));
  EXPECT_EQ(std::memcmp(&handle, &again, sizeof handle), 0);
  check_cuda(api().ipc_get(memory.as<std::byte>() + 4096, &again));
  EXPECT_EQ(std::memcmp(handle.bytes, again.bytes, sizeof handle.bytes), 0) << "the same allocation";
  EXPECT_EQ(again.offset, handle.offset + 4096);
}

TEST_F(Runtime, ErrorsHaveAText) {
  void* none = nullptr;
  EXPECT_NE(api().allocate(&none, size_t{1} << 60), 0);
  EXPECT_NE(std::string(api().last_error()).find("allocate: "), std::string::npos);
  EXPECT_THROW(check_cuda(api().set_device(4096)), std::exception);
}

}  // namespace
}  // namespace tritonforge::gpu
