#include "kernels/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/cuda_library.h"
#include "kernels/tensor_checksum.h"

namespace tritonforge {
namespace {

TEST(Checksum, FollowsItsDefinition) {
  EXPECT_EQ(checksum_bytes("", 0), 0u);
  // SplitMix64's published first outputs for seed 0 are the mixes of zero words.
  EXPECT_EQ(checksum_mix(0, 0), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(checksum_mix(0, 1), 0x6E789E6AA1B965F4ull);
  const std::vector<char> zeros(16, 0);
  EXPECT_EQ(checksum_bytes(zeros.data(), 16), 0xE220A8397B1DCDAFull + 0x6E789E6AA1B965F4ull);
  EXPECT_EQ(checksum_bytes(zeros.data(), 9), checksum_bytes(zeros.data(), 16));  // the last word is padded with zeros
}

TEST(Checksum, SeesEveryByteAndItsPlace) {
  std::string text(100, 'a');
  const uint64_t before = checksum_bytes(text.data(), text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = 'b';
    EXPECT_NE(checksum_bytes(changed.data(), changed.size()), before) << i;
  }
  const std::string ordered = "12345678abcdefgh", swapped = "abcdefgh12345678";
  EXPECT_NE(checksum_bytes(ordered.data(), 16), checksum_bytes(swapped.data(), 16));
}

TEST(Checksum, PartsAddUpToTheWhole) {
  const std::string text = "0123456789abcdefghijklmnopqrstuvwxyz-";  // 37 bytes
  EXPECT_EQ(checksum_bytes(text.data(), 16) + checksum_bytes(text.data() + 16, 21, 2), checksum_bytes(text.data(), 37));
}

// Whatever the number of threads that share it: larger than what is worth one.
TEST(Checksum, OfTensorsIsThatOfTheirBytes) {
  const std::vector<at::Tensor> tensors{at::arange(3'000'001).to(at::kByte), at::randn({5}).to(at::kBFloat16),
                                        at::empty({0})};
  const auto found = kernels::tensor_checksums(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(found[i], fmt::format("{:016x}", checksum_bytes(tensors[i].const_data_ptr(), tensors[i].nbytes())));
  }
}

// The library may be there or not: it opens with the interface of this program, or the error names the way to it.
TEST(CudaLibrary, OpensOrNamesWhatToDo) {
  try {
    EXPECT_EQ(gpu::open_cuda_library().abi, gpu::kCudaAbi);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMachine);
    EXPECT_NE(std::string(error.what()).find("make gpu"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace tritonforge
