// What process P does with memory, on the CPU: canaries, masks, comparisons, passes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "evaluate/plan/drawn.h"
#include "evaluate/plan/gpu_driver.h"
#include "evaluate/plan/guard.h"
#include "evaluate/plan/sealed.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

// An ELF file of 64 bits with no more than sections of these names.
std::vector<std::byte> elf_of(const std::vector<std::string>& sections) {
  std::string names(1, '\0'), headers, file(64, '\0');
  const auto put = [](std::string& into, size_t at, auto value) {
    std::memcpy(into.data() + at, &value, sizeof value);
  };
  for (const std::string& section : sections) {
    std::string header(64, '\0');
    put(header, 0, static_cast<uint32_t>(names.size()));
    headers += header;
    names += section + '\0';
  }
  std::string of_names(64, '\0');
  put(of_names, 0x18, uint64_t{64});
  file += names;
  put(file, 0x28, uint64_t{file.size()});
  put(file, 0x3A, uint16_t{64});
  put(file, 0x3C, static_cast<uint16_t>(sections.size() + 1));
  put(file, 0x3E, static_cast<uint16_t>(sections.size()));
  file += headers + of_names;
  const auto bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

// Section names as NVRTC and ptxas write them.
TEST(Cubin, OnlyOneWithVariablesKeepsMemory) {
  EXPECT_FALSE(keeps_memory(elf_of({".text.k", ".nv.constant0.k", ".nv.shared.k"})));
  for (const char* own : {".nv.global", ".nv.global.init", ".nv.constant3"})
    EXPECT_TRUE(keeps_memory(elf_of({".text.k", own, ".nv.constant0.k"}))) << own;
}

TEST(Cubin, OfWhatIsNoneNobodyKnows) {
  std::vector<std::byte> cut = elf_of({".text.k"});
  for (; !cut.empty(); cut.pop_back()) keeps_memory(cut);  // and reads nothing beyond it
  EXPECT_TRUE(keeps_memory(cut));
}

float* data(const at::Tensor& tensor) { return tensor.data_ptr<float>(); }

TEST(GuardedMemory, MovesATensorAsItIs) {
  GuardedMemory memory(3);
  const at::Tensor given = at::arange(24, at::kFloat).view({4, 6}).t().narrow(0, 1, 3);  // strided, with an offset
  const at::Tensor moved = memory.move(given, true);
  EXPECT_TRUE(moved.equal(given));
  EXPECT_EQ(moved.strides(), given.strides());
  EXPECT_EQ(moved.storage_offset(), given.storage_offset());
  EXPECT_TRUE(moved.as_strided({24}, {1}, 0).equal(at::arange(24, at::kFloat)));  // the whole storage came along
  EXPECT_NE(moved.data_ptr(), given.data_ptr());
  EXPECT_TRUE(memory.damaged().empty());
}

TEST(GuardedMemory, AddressesDifferFromSeedToSeed) {
  const auto offset = [](uint64_t seed) {
    GuardedMemory memory(seed);
    const at::Tensor moved = memory.move(at::zeros({4}), true);
    int64_t words = 0;
    for (const float* at = data(moved); std::isnan(at[-1 - words]);) ++words;
    return words * 4;
  };
  EXPECT_GE(offset(1), kGuardBytes);
  EXPECT_TRUE(offset(1) != offset(2) || offset(1) != offset(3));
}

TEST(GuardedMemory, AWriteBeyondAnEndShowsWithItsPlace) {
  GuardedMemory memory(3);
  const at::Tensor first = memory.move(at::zeros({5}), true), second = memory.move(at::zeros({5}), false);
  data(first)[4] = 1;
  EXPECT_TRUE(memory.damaged().empty());
  data(second)[5] = 0;
  ASSERT_EQ(memory.damaged().size(), 1u);
  EXPECT_EQ(memory.damaged()[0].buffer, 1u);
  EXPECT_EQ(memory.damaged()[0].first_byte, 20);
  EXPECT_EQ(memory.damage_text(), "it wrote out of bounds of a tensor that it was not given, 20 bytes after its begin");
  memory.name(second, "'y'");
  EXPECT_EQ(memory.damage_text(), "it wrote out of bounds of 'y', 20 bytes after its begin");
  data(first)[-2] = 7;
  ASSERT_EQ(memory.damaged().size(), 2u);
  EXPECT_EQ(memory.damaged()[0].first_byte, -8);
}

TEST(GuardedMemory, WhatIsReadBeyondAnEndIsNoNumberInAnyFloatType) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    GuardedMemory memory;
    const at::Tensor moved = memory.move(at::zeros({64}, type), true);
    EXPECT_TRUE(moved.as_strided({1}, {1}, 0).isnan().logical_not().all().item<bool>());
    const at::Tensor after = at::for_blob(static_cast<char*>(moved.data_ptr()) + moved.nbytes(), {16})
                                 .options(moved.options())
                                 .make_tensor();
    EXPECT_TRUE(after.isnan().all().item<bool>()) << type;
  }
}

bool is_within(const at::Tensor& output, const at::Tensor& expected, const Bounds& bounds) {
  const Sealer sealer;
  return SealedOutputs(sealer, {expected}, {bounds}, 11).compare(sealer, {output}).right();
}

TEST(SealedTensor, HidesWhatItIsComparedWith) {
  const Sealer sealer;
  for (const at::ScalarType type :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kByte, at::kBool}) {
    const at::Tensor given = at::arange(35).remainder(7).to(type).view({5, 7}).t().contiguous().t();
    const SealedTensor sealed(sealer, given, {}, 11), other(sealer, given, {}, 12);
    EXPECT_FALSE(sealed.masked().equal(other.masked()));
    const at::Tensor plain = at::zeros_like(sealed.masked());
    storage_bytes(plain).narrow(0, 0, static_cast<int64_t>(given.nbytes())).copy_(storage_bytes(given));
    EXPECT_FALSE(sealed.masked().eq(plain).any().item<bool>()) << type;
    for (const at::Tensor& same : {given, given.contiguous(), at::cat({given, given}).narrow(0, 5, 5)})
      EXPECT_TRUE(is_within(same, given, {})) << type;
    at::Tensor last_off = given.clone();
    last_off[4][6] = 0;
    EXPECT_FALSE(is_within(last_off, given, {})) << type;
  }
}

TEST(SealedTensor, KnowsEveryHalf) {
  const at::Tensor bits = at::arange(-32768, 32768).to(at::kShort);
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor all = bits.view(type);
    EXPECT_TRUE(is_within(all, all, {}));
    const at::Tensor finite = all.masked_select(all.isfinite());
    const double most = 1.01 * finite.abs().max().item<double>();
    for (const double sign : {-1.0, 1.0}) {  // those between are as far from the ends as their numbers say
      const at::Tensor end = at::full_like(finite, sign * most / 1.01);
      EXPECT_TRUE(is_within(finite, end, {.absolute = 2 * most, .rms = 2 * most}));
      EXPECT_FALSE(is_within(finite, end, {.absolute = 1.98 * most / 1.01, .rms = 2 * most}));
    }
    // The sum of the squares is that of the numbers.
    const at::Tensor small = finite.masked_select(finite.abs() < 100), zero = at::zeros_like(small);
    const double rms = small.to(at::kDouble).square().mean().sqrt().item<double>();
    EXPECT_TRUE(is_within(small, zero, {.absolute = 100, .rms = rms * (1 + 1e-9)}));
    EXPECT_FALSE(is_within(small, zero, {.absolute = 100, .rms = rms * (1 - 1e-9)}));
  }
}

TEST(SealedOutputs, AreAsManyAndOfTheirKind) {
  const Sealer sealer;
  const at::Tensor one = at::ones({3}), empty = at::empty({0});
  const SealedOutputs two(sealer, {one, empty}, {{}, {}}, 1), none(sealer, {}, {}, 1);
  EXPECT_TRUE(two.compare(sealer, {one, empty}).right());
  EXPECT_FALSE(two.compare(sealer, {one}).right());
  EXPECT_FALSE(two.compare(sealer, {one, one}).right());
  EXPECT_FALSE(two.compare(sealer, {one, empty.to(at::kHalf)}).right());
  EXPECT_TRUE(none.compare(sealer, {}).right());
}

TEST(Wipe, LeavesNothingOfTheStorage) {
  const at::Tensor whole = at::ones({8});
  wipe(whole.narrow(0, 2, 3));
  EXPECT_TRUE(whole.isnan().all().item<bool>());
}

TEST(Within, IsTheJudgementOfTheTrials) {
  const Bounds bounds{.absolute = 1e-4, .relative = 1e-4, .rms = 0.05};
  const at::Tensor expected = at::linspace(-3, 3, 100);
  EXPECT_TRUE(is_within(expected, expected, bounds));
  EXPECT_TRUE(is_within(expected + 5e-5, expected, bounds));
  at::Tensor one_off = expected.clone();
  one_off[50] += 1e-3;
  EXPECT_FALSE(is_within(one_off, expected, bounds));
  EXPECT_FALSE(is_within(at::zeros({100}), expected * 1e-6, {.absolute = 1e-4, .relative = 1e-4, .rms = 1e-8}));
  EXPECT_FALSE(is_within(expected.to(at::kDouble), expected, bounds));
  EXPECT_FALSE(is_within(expected.narrow(0, 0, 99), expected, bounds));
}

TEST(Within, NoNumberAgreesWithItselfAlone) {
  const Bounds bounds{.absolute = 1e-4, .relative = 1e-4, .rms = 0.05};
  at::Tensor expected = at::ones({4});
  expected[1] = std::numeric_limits<float>::quiet_NaN();
  expected[2] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(is_within(expected, expected, bounds));
  EXPECT_FALSE(is_within(at::ones({4}), expected, bounds));
  EXPECT_FALSE(is_within(-expected, expected, bounds));
  at::Tensor poisoned = at::full({4}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(is_within(poisoned, at::ones({4}), bounds));
}

TEST(Within, IntegersAreEqual) {
  EXPECT_TRUE(is_within(at::arange(5), at::arange(5), {}));
  EXPECT_FALSE(is_within(at::arange(5), at::arange(5) + 1, {.absolute = 10}));
}

// Both ways to compare, on the same two tensors.
void expect_alike(const at::Tensor& output, const at::Tensor& expected) {
  const auto view = [](const ReplayedTensor& tensor) {
    return parse_tensors(Json::array({tensor.described}), tensor.bytes).front();
  };
  const ReplayedTensor mine = bytes_of(output), theirs = bytes_of(expected);
  const Bounds bounds = bounds_of(view(theirs), {});
  const Comparison handed = compare(view(mine), view(theirs), {}, "output 0");
  const Comparison drawn = compare(output, expected, bounds, "output 0");
  EXPECT_EQ(drawn.passed, handed.passed) << handed.mismatch << "; " << drawn.mismatch;
  if (std::isinf(handed.max_rel_error)) EXPECT_EQ(drawn.max_rel_error, handed.max_rel_error);
  else EXPECT_NEAR(drawn.max_rel_error, handed.max_rel_error, 1e-9 * handed.max_rel_error);
  EXPECT_EQ(drawn.max_abs_error, handed.max_abs_error);
  EXPECT_EQ(drawn.mismatch.substr(0, 40), handed.mismatch.substr(0, 40));
}

TEST(CompareOnADevice, IsTheComparisonOfBytes) {
  seed_torch(3, at::kCPU);
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kBool}) {
    const at::Tensor expected = at::randn({37, 11}).mul(20).to(type);
    expect_alike(expected, expected);
    at::Tensor one_off = expected.clone();
    one_off[36][10] = one_off[36][10].item<double>() == 0 ? 3 : 0;
    expect_alike(one_off, expected);
    expect_alike(at::zeros_like(expected), expected);
    expect_alike(expected.t().contiguous().t(), expected);  // another memory order
    expect_alike(expected.view({11, 37}), expected);
    expect_alike(expected.to(type == at::kFloat ? at::kHalf : at::kFloat), expected);
  }
  for (const double odd : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    at::Tensor expected = at::randn({50});
    expected[7] = odd;
    expect_alike(expected, expected);
    expect_alike(-expected, expected);
    expect_alike(at::randn({50}), expected);
  }
  const at::Tensor small = at::randn({100}) * 1e-6;  // zeros would pass but for the rms
  expect_alike(at::zeros({100}), small);
  at::Tensor large = at::arange(int64_t{1} << 40, (int64_t{1} << 40) + 20);  // beyond what a float holds
  expect_alike(large + 1, large);
}

TEST(CompareOnADevice, FindsOneElementInTheLastPart) {
  const at::Tensor expected = at::ones({2, kElementsAtOnce / 2 + 5});
  at::Tensor output = expected.clone();
  const Bounds bounds{.absolute = 1e-4, .relative = 1e-4, .rms = 0.05};
  EXPECT_TRUE(compare(output, expected, bounds, "output 0").passed);
  EXPECT_TRUE(is_within(output, expected, bounds));
  output[1][kElementsAtOnce / 2 + 4] = 2;
  EXPECT_EQ(compare(output, expected, bounds, "output 0").mismatch.substr(0, 34), "output 0 at [1, 8388612]: 2, expec");
  EXPECT_FALSE(is_within(output, expected, bounds));
}

TEST(Overlap, IsToldOfViewsInAnyOrderAndOfAnyType) {
  const at::Tensor x = at::zeros({4, 6});
  const auto columns = [&](int64_t first, int64_t count) { return x.narrow(1, first, count); };
  EXPECT_TRUE(overlap(x, x));
  EXPECT_TRUE(overlap(x, x.t()));
  EXPECT_TRUE(overlap(x[0], columns(5, 1)));
  EXPECT_TRUE(overlap(columns(0, 4), columns(3, 3)));
  EXPECT_TRUE(overlap(columns(2, 2), x.view(at::kByte).narrow(1, 11, 1)));
  EXPECT_TRUE(overlap(x[1].narrow(0, 2, 1).expand({7}), columns(2, 1)));
  EXPECT_FALSE(overlap(x, x.clone()));
  EXPECT_FALSE(overlap(x[0], x[1]));
  EXPECT_FALSE(overlap(columns(0, 3), columns(3, 3)));
  EXPECT_FALSE(overlap(columns(2, 2), x.view(at::kByte).narrow(1, 16, 4)));
  EXPECT_FALSE(overlap(x[1].narrow(0, 2, 1).expand({7}), columns(3, 3)));
  EXPECT_FALSE(overlap(columns(0, 0), x));
}

}  // namespace
}  // namespace tritonforge::evaluate
