// What a kernel can store at most, told from its text.
#include "evaluate/ir/stores.h"

#include <gtest/gtest.h>

namespace tritonforge::evaluate::ir {
namespace {

constexpr const char* kScalar = "    tt.store %x, %f : !tt.ptr<f32>\n";
constexpr const char* kBlock =
    "    %b = tt.splat %x : !tt.ptr<f32> -> tensor<8x16x!tt.ptr<f32>>\n"
    "    %v = arith.constant dense<0.0> : tensor<8x16xf32>\n"
    "    tt.store %b, %v : tensor<8x16x!tt.ptr<f32>>\n";

std::optional<int64_t> stored(const std::string& body, const std::string& functions = "") {
  return most_stored(
      parse("module {\n  tt.func public @k(%x: !tt.ptr<f32>, %h: !tt.ptr<f16>, %n: i32) {\n"
            "    %f = arith.constant 1.0 : f32\n    %t = arith.constant true\n" +
            body + "    tt.return\n  }\n" + functions + "}\n"));
}

std::string loop(const std::string& from, const std::string& to, const std::string& by, const std::string& body) {
  return "    %from = arith.constant " + from + " : i32\n    %to = arith.constant " + to +
         " : i32\n    %by = arith.constant " + by +
         " : i32\n    %last = arith.bitcast %to : i32 to i32\n    scf.for %i = %from to %last step %by  : i32 {\n" +
         body + "    }\n";
}

TEST(MostStored, IsTheSumOfItsStores) {
  EXPECT_EQ(stored(""), 0);
  EXPECT_EQ(stored(kScalar), 4);
  EXPECT_EQ(stored(kBlock), 8 * 16 * 4);
  EXPECT_EQ(stored(std::string(kScalar) + kBlock), 4 + 8 * 16 * 4);
  EXPECT_EQ(stored("    %g = arith.constant 1.0 : f16\n    tt.store %h, %g : !tt.ptr<f16>\n"), 2);
  EXPECT_EQ(stored("    %o = tt.atomic_rmw fadd, acq_rel, gpu, %x, %f, %t : (!tt.ptr<f32>, f32, i1) -> f32\n"), 4);
}

TEST(MostStored, OfABlockPointerIsItsBlock) {
  EXPECT_EQ(stored("    %c = arith.constant 0 : i32\n    %d = arith.constant 64 : i64\n"
                   "    %p = tt.make_tensor_ptr %h, [%d, %d], [%d, %d], [%c, %c] {order = array<i32: 1, 0>} : "
                   "<tensor<4x32xf16>>\n    %a = tt.load %p : !tt.ptr<tensor<4x32xf16>>\n"
                   "    tt.store %p, %a : !tt.ptr<tensor<4x32xf16>>\n"),
            4 * 32 * 2);
}

TEST(MostStored, OfALoopIsThatOfItsRounds) {
  EXPECT_EQ(stored(loop("0", "10", "3", kScalar)), 4 * 4);
  EXPECT_EQ(stored(loop("-2", "10", "1", kScalar)), std::nullopt);  // nobody writes such
  EXPECT_EQ(stored(loop("5", "5", "1", kScalar)), 0);
  EXPECT_EQ(stored(loop("0", "2147483647", "1", kBlock)), int64_t{2147483647} * 8 * 16 * 4);
  EXPECT_EQ(stored(loop("0", "10", "0", kScalar)), std::nullopt);
}

TEST(MostStored, IsNotToldWhereRoundsDependOnData) {
  const std::string head = "    %from = arith.constant 0 : i32\n    %by = arith.constant 1 : i32\n";
  const auto of = [&](const std::string& body) {
    return stored(head + "    scf.for %i = %from to %n step %by  : i32 {\n" + body + "    }\n");
  };
  EXPECT_EQ(of(kScalar), std::nullopt);
  EXPECT_EQ(of("    %y = arith.addf %f, %f : f32\n"), 0);
  EXPECT_EQ(stored("    cf.br ^bb1\n  ^bb1:  // pred: ^bb0\n" + std::string(kScalar) + "    cf.br ^bb1\n"),
            std::nullopt);
}

TEST(MostStored, BranchesAndFunctionsCount) {
  EXPECT_EQ(stored("    scf.if %t {\n" + std::string(kScalar) + "    } else {\n" + kScalar + "    }\n"), 8);
  EXPECT_EQ(stored("    cf.cond_br %t, ^bb1, ^bb2\n  ^bb1:  // pred: ^bb0\n    tt.return\n  ^bb2:  // pred: ^bb0\n" +
                   std::string(kScalar)),
            4);
  const std::string twice = "    tt.call @g(%x) : (!tt.ptr<f32>) -> ()\n    tt.call @g(%x) : (!tt.ptr<f32>) -> ()\n";
  const auto g = [](const std::string& body) {
    return "  tt.func private @g(%x: !tt.ptr<f32>) {\n    %f = arith.constant 1.0 : f32\n" + body +
           "    tt.return\n  }\n";
  };
  EXPECT_EQ(stored(twice, g(kScalar)), 8);
  EXPECT_EQ(stored(twice, g("    tt.call @g(%x) : (!tt.ptr<f32>) -> ()\n")), std::nullopt);
}

// Each calls the next one twice, as often as a text has room for.
TEST(MostStored, ALongChainOfCallsIsWalkedOnce) {
  std::string functions;
  for (int k = 0; k < 200; ++k) {
    const std::string call = "    tt.call @g" + std::to_string(k + 1) + "(%x) : (!tt.ptr<f32>) -> ()\n";
    functions += "  tt.func private @g" + std::to_string(k) + "(%x: !tt.ptr<f32>) {\n" + call + call +
                 "    tt.return\n  }\n";
  }
  functions += "  tt.func private @g200(%x: !tt.ptr<f32>) {\n    %f = arith.constant 1.0 : f32\n" +
               std::string(kScalar) + "    tt.return\n  }\n";
  EXPECT_GE(stored("    tt.call @g0(%x) : (!tt.ptr<f32>) -> ()\n", functions).value_or(0), int64_t{1} << 40);
}

}  // namespace
}  // namespace tritonforge::evaluate::ir
