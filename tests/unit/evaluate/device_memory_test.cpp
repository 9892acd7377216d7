#include "evaluate/plan/device_memory.h"

#include <gtest/gtest.h>

#include <future>

namespace tritonforge::evaluate {
namespace {

TEST(DeviceMemory, WhoNeedsMoreThanIsLeftWaitsForIt) {
  DeviceMemory memory(100);
  std::optional<DeviceMemory::Hold> first(memory.take(60, Deadline::after(60)));
  EXPECT_THROW(memory.take(50, Deadline::after(0)), Error);
  const auto beside = memory.take(40, Deadline::after(60));
  auto waiting = std::async(std::launch::async, [&] { memory.take(50, Deadline::after(60)); });
  first.reset();
  waiting.get();
}

TEST(DeviceMemory, WhoNeedsMoreThanThereIsHasItAlone) {
  DeviceMemory memory(100);
  const auto all = memory.take(1e9, Deadline::after(60));
  EXPECT_THROW(memory.take(1, Deadline::after(0)), Error);
}

}  // namespace
}  // namespace tritonforge::evaluate
