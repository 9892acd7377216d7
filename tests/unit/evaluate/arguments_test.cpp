#include "evaluate/plan/arguments.h"

#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

const Json kTensor = {{"t", 0}}, kNone = {{"null", true}}, kSeven = {{"i", 7}}, kZero = {{"i", 0}},
           kHalf = {{"r", "0.5"}};

std::string wrong(const Json& given, const Json& parameters, bool converts = false) {
  const Plan plan = parse_plan(
      {{"values", {{{"dtype", "float32"}, {"shape", {4}}, {"stride", {1}}, {"input", 0}}}},
       {"kernels",
        {{{"name", "add"}, {"options", Json::object()}, {"ir", Json::object()}, {"errors", Json::object()}}}},
       {"steps", {{{"launch", 0}, {"grid", {1, 1, 1}}, {"args", given}}}},
       {"outputs", {{"tensor", 0}}},
       {"inputs", 1},
       {"texts", Json::array()},
       {"constants", Json::array()}},
      {});
  return wrong_arguments(plan, plan.steps.at(0), parameters, converts);
}

Json one(const char* kind, unsigned bytes) { return Json::array({Json::array({kind, bytes})}); }
Json list(const Json& argument) { return Json::array({argument}); }

TEST(Arguments, AreCounted) {
  const Json parameters = Json::array({{"global", 8u}, {"global", 8u}, {"integer", 4u}});
  EXPECT_EQ(wrong({kTensor, kTensor, kSeven}, parameters), "");
  EXPECT_EQ(wrong({kTensor, kTensor}, parameters), "kernel add: 2 arguments for 3 parameters");
  EXPECT_EQ(wrong({kTensor, kTensor, kSeven, kSeven}, parameters), "kernel add: 4 arguments for 3 parameters");
  EXPECT_EQ(wrong(Json::array(), Json::array()), "");
}

TEST(Arguments, ThatArePointersAndThoseThatAreNotAreToldApart) {
  EXPECT_EQ(wrong(list(kSeven), one("global", 8)), "kernel add: argument 0 is an integer, its parameter a pointer");
  EXPECT_EQ(wrong(list(kTensor), one("integer", 4)),
            "kernel add: argument 0 is a tensor, its parameter an integer of 4 bytes");
  EXPECT_EQ(wrong(list(kTensor), one("value", 4)),
            "kernel add: argument 0 is a tensor, its parameter a value of 4 bytes");
  EXPECT_EQ(wrong(list(kNone), one("global", 8)), "");
  for (const Json& either : {kTensor, kNone, kSeven, kHalf}) EXPECT_EQ(wrong(list(either), one("value", 8)), "");
}

TEST(Arguments, OfAnotherKindOfNumberAreWrongWhereTheirBitsAreHandedOver) {
  EXPECT_EQ(wrong(list(kSeven), one("real", 4)),
            "kernel add: argument 0 is an integer, its parameter a real number of 4 bytes");
  EXPECT_EQ(wrong(list(kHalf), one("integer", 4)),
            "kernel add: argument 0 is a real number, its parameter an integer of 4 bytes");
  EXPECT_EQ(wrong(list(kZero), one("real", 4)), "");  // the same bits
  EXPECT_EQ(wrong(list(kHalf), one("value", 4)), "");
  EXPECT_EQ(wrong(list(kSeven), one("real", 4), /*converts=*/true), "");
  EXPECT_EQ(wrong(list(kHalf), one("local", 0), /*converts=*/true),
            "kernel add: argument 0 is a real number, its parameter memory of a block");
}

TEST(Arguments, AStructIsNothingThatALaunchCanGive) {
  EXPECT_EQ(wrong(list(kSeven), one("value", 12)),
            "kernel add: argument 0 is an integer, its parameter a value of 12 bytes");
}

TEST(Arguments, WhatACompilerDoesNotTellIsNoParameter) {
  EXPECT_EQ(wrong(list(kSeven), nullptr), "kernel add: its compiler does not tell its parameters");
  EXPECT_EQ(wrong(list(kSeven), Json::array({"integer"})), "kernel add: its compiler does not tell its parameter 0");
}

}  // namespace
}  // namespace tritonforge::evaluate
