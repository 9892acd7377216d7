#include "kernels/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge::kernels {
namespace {

ErrorKind kind_of(const char* name) {
  try {
    open_device(name);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("device"));
    return error.kind();
  }
  return ErrorKind::kInternal;
}

TEST(Device, NamesAreChecked) {
  EXPECT_TRUE(open_device("cpu").is_cpu());
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:0x", "cuda0"})
    EXPECT_EQ(kind_of(wrong), ErrorKind::kUsage) << wrong;
  EXPECT_EQ(kind_of("cuda:63"), ErrorKind::kMachine);  // no driver (its message ends in "--device cpu"), or fewer GPUs
}

TEST(Device, DtypeNamesAreChecked) {
  EXPECT_EQ(parse_dtype("bfloat16", at::kCPU), at::kBFloat16);
  EXPECT_EQ(parse_dtype("float32", at::kCPU), at::kFloat);
  EXPECT_THROW(parse_dtype("bf16", at::kCPU), Error);
}

TEST(Device, TheCpuHasAName) {
  EXPECT_EQ(device_identity(at::Device(at::kCPU)), "cpu");
  synchronize(at::Device(at::kCPU));
}

}  // namespace
}  // namespace tritonforge::kernels
