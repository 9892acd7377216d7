#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "evaluate/ir/floats.h"
#include "evaluate/ir/machine.h"

namespace tritonforge::evaluate::ir {
namespace {

using ::testing::HasSubstr;

std::string kernel(const std::string& body, const std::string& arguments = "%x: !tt.ptr<f32>") {
  return "module {\n  tt.func public @k(" + arguments + ") {\n" + body + "    tt.return\n  }\n}\n";
}

std::string refusal(const std::string& text, const Limits& limits = {}) {
  try {
    compile(parse(text, limits));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TritonIr, ErrorsNameLineAndOperation) {
  EXPECT_THAT(refusal(kernel("    %0 = arith.addf %y, %y : f32\n")),
              HasSubstr("Triton IR line 3, arith.addf: %y is not defined before"));
  EXPECT_THAT(refusal(kernel("    %0 = tt.foo %x : !tt.ptr<f32>\n")), HasSubstr("operation tt.foo is not evaluated"));
  EXPECT_THAT(refusal(kernel("    %c = arith.constant 1 : i32\n    %0 = arith.addf %c, %c : i32\n")),
              HasSubstr("operation arith.addf is not evaluated on i32"));
  EXPECT_THAT(refusal(kernel("    %0 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<4xi32>\n")),
              HasSubstr("line 3, tt.make_range: its bounds do not fit"));
  EXPECT_THAT(refusal(kernel("    %0 = arith.constant 1.0 : f32\n    tt.store %0, %0 : f32\n")),
              HasSubstr("an address that is f32"));
  EXPECT_THAT(refusal(kernel("    tt.call @g() : () -> ()\n")), HasSubstr("no function of that name"));
  EXPECT_THAT(refusal("module {\n}\n"), HasSubstr("no public function"));
  EXPECT_THAT(refusal(kernel("    %0 = arith.constant dense<1> : tensor<4xi32, #blocked>\n")),
              HasSubstr("only IR before layout assignment"));
}

TEST(TritonIr, FunctionsThatCallThemselvesAreRefused) {
  const std::string text =
      "module {\n  tt.func public @k() {\n    tt.call @f() : () -> ()\n    tt.return\n  }\n"
      "  tt.func private @f() {\n    tt.call @f() : () -> ()\n    tt.return\n  }\n}\n";
  EXPECT_THAT(refusal(text), HasSubstr("function f calls itself"));
}

// Inline PTX of one instruction is the function that it is; all else has no meaning here.
TEST(TritonIr, OfInlineAssemblyOneFloatInstructionIsEvaluated) {
  const auto said = [](const std::string& assembly, const std::string& operands, const std::string& types) {
    return refusal(kernel("    %c = arith.constant 1.0 : f32\n    %0 = tt.elementwise_inline_asm \"" + assembly +
                          "\" {constraints = \"\", packed_element = 1 : i32, pure = true} " + operands + " : " + types +
                          " -> f32\n    tt.store %x, %0 : !tt.ptr<f32>\n"));
  };
  EXPECT_EQ(said("ex2.approx.ftz.f32 $0, $1;", "%c", "f32"), "accepted");
  EXPECT_EQ(said("fma.rn.f32 $0, $1, $2, $3;", "%c, %c, %c", "f32, f32, f32"), "accepted");
  EXPECT_EQ(said("sub.f32 $0, $1, $2", "%c, %c", "f32, f32"), "accepted");
  for (const char* other : {"sub.f32 $0, $2, $1;", "sub.rz.f32 $0, $1, $2;", "sub.f16 $0, $1, $2;",
                            "sub.f32 $0, $1, $2; sub.f32 $0, $0, $2;", "ex2.f32 $0, $1;", "nonsense", "$0", ""}) {
    EXPECT_THAT(said(other, "%c, %c", "f32, f32"), HasSubstr("tt.elementwise_inline_asm is not evaluated")) << other;
  }
}

TEST(TritonIr, IsBounded) {
  EXPECT_THAT(refusal(kernel(""), {.bytes = 10}), HasSubstr("over the limit of 10"));
  EXPECT_THAT(refusal(kernel("    %0 = arith.constant 1 : i32\n    %1 = arith.constant 1 : i32\n"), {.operations = 1}),
              HasSubstr("more than 1 operations"));
  EXPECT_THAT(refusal(kernel("    %0 = arith.constant dense<1> : tensor<2097152xi32>\n")),
              HasSubstr("more than 1048576 elements"));
  std::string deep = "    %t = arith.constant true\n";
  for (int k = 0; k < 100; ++k) deep += "    scf.if %t {\n";
  EXPECT_THAT(refusal(kernel(deep)), HasSubstr("nested deeper than 48"));
  // Calls that double the work at each level end at the limit of instructions, not of memory.
  std::string bomb =
      "module {\n  tt.func public @k(%x: !tt.ptr<f32>) {\n    tt.call @f0(%x) : (!tt.ptr<f32>) -> ()\n    tt.return\n  "
      "}\n";
  for (int k = 0; k < 30; ++k) {
    const std::string call = k == 29 ? "    %c = arith.constant 1.0 : f32\n    tt.store %x, %c : !tt.ptr<f32>\n"
                                     : fmt::format("    tt.call @f{}(%x) : (!tt.ptr<f32>) -> ()\n", k + 1);
    bomb += fmt::format("  tt.func private @f{}(%x: !tt.ptr<f32>) {{\n{}{}    tt.return\n  }}\n", k, call,
                        k == 29 ? "" : call);
  }
  EXPECT_THAT(refusal(bomb + "}\n"), HasSubstr("instructions after inlining"));
}

TEST(TritonIr, LaunchesRunInEveryOrderAndAreTheSameWithEverySeed) {
  const std::string text = kernel(
      "    %p = tt.get_program_id x : i32\n    %a = tt.addptr %x, %p : !tt.ptr<f32>, i32\n    %f = arith.sitofp %p : "
      "i32 to f32\n    tt.store %a, %f : !tt.ptr<f32>\n");
  const Program program = compile(parse(text));
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<float> out(8);
    Memory memory;
    const int buffer = memory.add("x", reinterpret_cast<std::byte*>(out.data()), 32, 4, true);
    const Argument argument{.form = Argument::Form::kBuffer, .buffer = buffer};
    const Work work = launch(program, memory, {&argument, 1}, {.grid = {8, 1, 1}, .seed = seed});
    EXPECT_EQ(work.bytes, 32);
    for (int k = 0; k < 8; ++k) EXPECT_EQ(out[static_cast<size_t>(k)], static_cast<float>(k));
  }
}

// 2 M N K each time that it runs: a loop over blocks of keys counts those that it goes to, and no others.
TEST(TritonIr, ADotIsAsManyOperationsAsItIsRun) {
  const std::string text = kernel(
      "    %a = arith.constant dense<1.0> : tensor<16x8xf32>\n    %b = arith.constant dense<2.0> : tensor<8x32xf32>\n"
      "    %z = arith.constant dense<0.0> : tensor<16x32xf32>\n    %l = arith.constant 0 : i32\n"
      "    %s = arith.constant 1 : i32\n    %n = tt.get_program_id x : i32\n"
      "    %d = scf.for %k = %l to %n step %s iter_args(%c = %z) -> (tensor<16x32xf32>) : i32 {\n"
      "      %e = tt.dot %a, %b, %c : tensor<16x8xf32> * tensor<8x32xf32> -> tensor<16x32xf32>\n"
      "      scf.yield %e : tensor<16x32xf32>\n    }\n"
      "    %p = tt.splat %x : !tt.ptr<f32> -> tensor<16x32x!tt.ptr<f32>>\n"
      "    tt.store %p, %d : tensor<16x32x!tt.ptr<f32>>\n");
  float out = 0;
  Memory memory;
  const Argument argument{.form = Argument::Form::kBuffer,
                          .buffer = memory.add("x", reinterpret_cast<std::byte*>(&out), 4, 4, true)};
  const Work work = launch(compile(parse(text)), memory, {&argument, 1}, {.grid = {4, 1, 1}});
  EXPECT_EQ(work.flops, (0 + 1 + 2 + 3) * 2.0 * 16 * 32 * 8);
}

TEST(TritonIr, OnlyAProductOfFloat32CanBeCutToTf32) {
  const auto dot = [](std::string_view precision, std::string_view type) {
    return cuts_to_tf32(
        fmt::format("  %1 = arith.addf %0, %0 : tensor<8x8xf32>\n"
                    "  %5 = tt.dot %1, %1, %1, inputPrecision = {0} : tensor<8x8x{1}> * "
                    "tensor<8x8x{1}> -> tensor<8x8xf32> loc(#loc1)\n",
                    precision, type));
  };
  EXPECT_TRUE(dot("tf32", "f32"));
  EXPECT_FALSE(dot("tf32", "f16"));
  EXPECT_FALSE(dot("tf32x3", "f32"));
  EXPECT_FALSE(dot("ieee", "f32"));
}

// A reduction over all elements is written with such a reshape, too: its order is its own, here that of the source.
TEST(TritonIr, AReshapeThatMayReorderDoesUnlessAllOfItIsReduced) {
  const Program program = compile(
      parse(kernel("    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
                   "    %m = tt.reshape %r : tensor<8xi32> -> tensor<4x2xi32>\n"
                   "    %v = tt.reshape %m allow_reorder : tensor<4x2xi32> -> tensor<8xi32>\n"
                   "    %s = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
                   "    %a = tt.addptr %s, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
                   "    tt.store %a, %v : tensor<8x!tt.ptr<i32>>\n"
                   "    %f = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n    ^bb0(%p: i32, %q: i32):\n"
                   "      tt.reduce.return %p : i32\n    }) : (tensor<8xi32>) -> i32\n"
                   "    %c = arith.constant 8 : i32\n    %b = tt.addptr %x, %c : !tt.ptr<i32>, i32\n"
                   "    tt.store %b, %f : !tt.ptr<i32>\n",
                   "%x: !tt.ptr<i32>")));
  std::vector<int32_t> out(9, -1);
  Memory memory;
  const Argument argument{.form = Argument::Form::kBuffer,
                          .buffer = memory.add("x", reinterpret_cast<std::byte*>(out.data()), 36, 4, true)};
  launch(program, memory, {&argument, 1}, {});
  EXPECT_EQ(out, (std::vector<int32_t>{4, 0, 5, 1, 6, 2, 7, 3, 0}));
}

// As TorchInductor's helpers for NaN: a tensor of one element, and a branch whose condition each lane has its own of.
TEST(TritonIr, AReductionBranchesLaneByLane) {
  const Program program = compile(
      parse(kernel("    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
                   "    %f = \"tt.reduce\"(%r) <{axis = 0 : i32}> ({\n    ^bb0(%p: i32, %q: i32):\n"
                   "      %one = tt.splat %p : i32 -> tensor<1xi32>\n"
                   "      %two = arith.addi %one, %one : tensor<1xi32>\n"
                   "      %d = tt.unsplat %two : tensor<1xi32>\n"
                   "      %c = arith.cmpi sgt, %d, %q : i32\n"
                   "      %s = scf.if %c -> (i32) {\n        %t = arith.addi %p, %q : i32\n        scf.yield %t : i32\n"
                   "      } else {\n        scf.yield %p : i32\n      }\n"
                   "      tt.reduce.return %s : i32\n    }) : (tensor<8xi32>) -> i32\n"
                   "    tt.store %x, %f : !tt.ptr<i32>\n",
                   "%x: !tt.ptr<i32>")));
  int32_t out = -1;
  Memory memory;
  const Argument argument{.form = Argument::Form::kBuffer,
                          .buffer = memory.add("x", reinterpret_cast<std::byte*>(&out), 4, 4, true)};
  launch(program, memory, {&argument, 1}, {});
  // Halves are joined: 0 4, 1 5, 2 6, 3 7 give 0, 1, 2, 3; then 0, 1; then 0.
  EXPECT_EQ(out, 0);
}

TEST(TritonIr, AReductionsBranchThatStoresIsRefused) {
  EXPECT_THAT(refusal(kernel("    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
                             "    %f = \"tt.reduce\"(%r) <{axis = 0 : i32}> ({\n    ^bb0(%p: i32, %q: i32):\n"
                             "      %c = arith.cmpi sgt, %p, %q : i32\n"
                             "      scf.if %c {\n        %v = arith.constant 1.0 : f32\n"
                             "        tt.store %x, %v : !tt.ptr<f32>\n      }\n"
                             "      tt.reduce.return %p : i32\n    }) : (tensor<8xi32>) -> i32\n")),
              HasSubstr("scf.if is not evaluated inside a reduction"));
}

TEST(TritonIr, AnAddressFromElsewhereIsAFault) {
  const Program program = compile(
      parse(kernel("    %c = arith.constant 123456 : i64\n    %p = tt.int_to_ptr %c : i64 -> !tt.ptr<f32>\n    %v = "
                   "arith.constant 1.0 : f32\n    tt.store %p, %v : !tt.ptr<f32>\n",
                   "")));
  Memory memory;
  try {
    launch(program, memory, {}, {});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_THAT(fault.what(), HasSubstr("which is in no tensor of this launch"));
  }
}

TEST(TritonIr, MisalignedAccessIsAFault) {
  const Program program = compile(
      parse(kernel("    %v = arith.constant 1.0 : f32\n    tt.store %x, %v : !tt.ptr<f32>\n")));
  std::vector<float> out(8);
  Memory memory;
  const Argument argument{.form = Argument::Form::kBuffer,
                          .buffer = memory.add("x", reinterpret_cast<std::byte*>(out.data()), 32, 4, true),
                          .integer = 2};
  EXPECT_THROW(launch(program, memory, {&argument, 1}, {}), Fault);
}

TEST(NarrowFloats, RoundToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {  // every half and bfloat16 is its own rounding
    const float half = half_to_float(static_cast<uint16_t>(bits)), brain = bf16_to_float(static_cast<uint16_t>(bits));
    if (!std::isnan(half)) {
      ASSERT_EQ(half_bits(round_to_half(half)), bits);
    }
    if (!std::isnan(brain)) {
      ASSERT_EQ(bf16_bits(round_to_bf16(brain)), bits);
    }
  }
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    const float e4m3 = E4M3::to_float(static_cast<uint8_t>(bits)), e5m2 = E5M2::to_float(static_cast<uint8_t>(bits));
    if (!std::isnan(e4m3)) {
      ASSERT_EQ(E4M3::bits(E4M3::round(e4m3)), bits);
    }
    if (!std::isnan(e5m2)) {
      ASSERT_EQ(E5M2::bits(E5M2::round(e5m2)), bits);
    }
  }
  EXPECT_EQ(round_to_half(2049.0f), 2048.0f);  // halfway: to even
  EXPECT_EQ(round_to_half(2051.0f), 2052.0f);
  EXPECT_EQ(round_to_half(65519.0f), 65504.0f);
  EXPECT_TRUE(std::isinf(round_to_half(65520.0f)));
  EXPECT_EQ(round_to_half(0x1p-25f), 0.0f);  // halfway between 0 and the smallest: to even
  EXPECT_EQ(round_to_half(0x1.8p-25f), 0x1p-24f);
  EXPECT_EQ(round_to_bf16(std::bit_cast<float>(0x3F808000u)), std::bit_cast<float>(0x3F800000u));
  EXPECT_EQ(round_to_bf16(std::bit_cast<float>(0x3F818000u)), std::bit_cast<float>(0x3F820000u));
  EXPECT_TRUE(std::isnan(round_to_bf16(std::bit_cast<float>(0x7F800001u))));
  EXPECT_EQ(E4M3::round(1000.0f), 448.0f);
  EXPECT_EQ(E5M2::round(0x1p-17f * 3), 0x1p-15f);
}

}  // namespace
}  // namespace tritonforge::evaluate::ir
