#include "evaluate/plan/chains.h"

#include <gtest/gtest.h>

#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {
namespace {

Json call(const std::string& name, const Json& args, int out) {
  return {{"aten", "aten::" + name}, {"overload", ""}, {"args", args}, {"kwargs", Json::object()}, {"out", {out}}};
}

// Of `inputs`, the first of the values, in float32 and one after another in memory.
Plan plan_of(const std::vector<std::vector<int64_t>>& shapes, int64_t inputs, const Json& steps) {
  Json values = Json::array();
  for (const auto& shape : shapes) {
    std::vector<int64_t> stride(shape.size(), 1);
    for (size_t d = shape.size() - 1; d-- > 0;) stride[d] = stride[d + 1] * shape[d + 1];
    values.push_back({{"dtype", "float32"}, {"shape", shape}, {"stride", stride}});
  }
  for (int64_t k = 0; k < inputs; ++k) values[static_cast<size_t>(k)]["input"] = k;
  return parse_plan({{"values", values},
                     {"kernels", Json::array()},
                     {"steps", steps},
                     {"outputs", {{"tensor", steps.back()["out"][0]}}},
                     {"inputs", inputs},
                     {"texts", Json::array()},
                     {"constants", Json::array()}},
                    {});
}

// A [512, 512], B [512, 512], v [512, 1]; 3 to 6: A B, (A B) v, B v, A (B v); 7: the sums of A B's rows, 8 of B's.
Plan chain_of(const Json& steps) {
  const std::vector<int64_t> square = {512, 512}, column = {512, 1};
  return plan_of({square, square, column, square, column, column, column, column, column}, 3, steps);
}

Json mm(int left, int right, int out) { return call("mm", {{{"t", left}}, {{"t", right}}}, out); }
Json row_sums(int of, int out) {
  return {{"aten", "aten::sum"},
          {"overload", "dim_IntList"},
          {"args", {{{"t", of}}, {1}, true}},
          {"kwargs", Json::object()},
          {"out", {out}}};
}

TEST(Chains, WhatAnotherOrderSavesIsDoneByTorchWhereTorchMakesItsProducts) {
  const ReferenceWork reference = reference_work(chain_of({mm(0, 1, 3), mm(3, 2, 4)}));
  const auto share = [&](const Json& steps) {
    return own_share({.computing = 1e30}, aten_work(chain_of(steps), reference), reference.work);
  };
  EXPECT_EQ(share({mm(1, 2, 5), mm(0, 5, 6)}), 0);
  EXPECT_GT(share(Json::array({mm(1, 2, 5)})), 0.9);  // a kernel does the other product
  EXPECT_LT(share({mm(0, 1, 3), mm(3, 2, 4)}), 0.1);
}

TEST(Chains, ASumOverAProductIsAProductWithOnes) {
  const ReferenceWork reference = reference_work(chain_of({mm(0, 1, 3), row_sums(3, 7)}));
  const auto share = [&](const Json& steps) {
    return own_share({.computing = 1e30}, aten_work(chain_of(steps), reference), reference.work);
  };
  EXPECT_EQ(share({row_sums(1, 8), mm(0, 8, 6)}), 0);
  EXPECT_GT(share(Json::array({row_sums(1, 8)})), 0.9);
}

TEST(Chains, AProductThatSomebodyElseLooksAtIsNeededAsItIs) {
  EXPECT_EQ(chains_of(chain_of({mm(0, 1, 3), mm(3, 2, 4), row_sums(3, 7)})).saved, 0);
  EXPECT_GT(chains_of(chain_of({mm(0, 1, 3), mm(3, 2, 4)})).saved, 0);
}

TEST(Chains, AConvolutionOfSinglePlacesIsALink) {
  const auto of_filters = [](int64_t filter) {
    const auto convolution = [](int of, int filters, int out) {
      return call("convolution", {{{"t", of}}, {{"t", filters}}, nullptr, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1},
                  out);
    };
    return chains_of(
        plan_of({{2, 32, 16, 16}, {256, 32, filter, filter}, {32, 256, 1, 1}, {2, 256, 16, 16}, {2, 32, 16, 16}}, 3,
                {convolution(0, 1, 3), convolution(3, 2, 4)}));
  };
  EXPECT_GT(of_filters(1).saved, 0);
  EXPECT_EQ(of_filters(3).saved, 0);
}

TEST(Chains, AsManyProductsAsAPlanMayHaveInARowTakeNoStack) {
  const int products = static_cast<int>(PlanLimits().steps);
  Plan plan;
  plan.values.assign(static_cast<size_t>(products) + 1, {.shape = {2, 2}, .stride = {2, 1}, .weight = {}});
  for (int k = 0; k < products; ++k) {
    plan.steps.push_back(
        {.name = "aten::mm", .args = Json::array({{{"t", k}}, {{"t", 0}}}), .kwargs = Json::object(), .out = {k + 1}});
  }
  plan.output_values = {products};
  EXPECT_EQ(chains_of(plan).saved, 0);
}

}  // namespace
}  // namespace tritonforge::evaluate
