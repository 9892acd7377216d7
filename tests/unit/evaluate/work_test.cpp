#include "evaluate/plan/work.h"

#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

// x [64, 32] and w [16, 32]; what `steps` make of them is [64, 16].
Plan plan_of(const Json& steps) {
  return parse_plan({{"values",
                      {{{"dtype", "float32"}, {"shape", {64, 32}}, {"stride", {32, 1}}, {"input", 0}},
                       {{"dtype", "float32"}, {"shape", {16, 32}}, {"stride", {32, 1}}, {"weight", "w"}},
                       {{"dtype", "float32"}, {"shape", {64, 16}}, {"stride", {16, 1}}},
                       {{"dtype", "float32"}, {"shape", {64, 16}}, {"stride", {16, 1}}}}},
                     {"kernels", Json::array()},
                     {"steps", steps},
                     {"outputs", {{"tensor", 0}}},
                     {"inputs", 1},
                     {"texts", Json::array()},
                     {"constants", Json::array()}},
                    {});
}

Json call(const std::string& name, const Json& args, int out) {
  return {{"aten", "aten::" + name}, {"overload", ""}, {"args", args}, {"kwargs", Json::object()}, {"out", {out}}};
}

std::map<std::string, double> of_any_size(const std::set<std::string>& calls) {
  std::map<std::string, double> elements;
  for (const std::string& call : calls) elements[call] = 1e12;
  return elements;
}

TEST(AtenWork, IsFlopsAndBytes) {
  const Json x = {{"t", 0}}, w = {{"t", 1}}, y = {{"t", 2}};
  const Work product = aten_work(plan_of(Json::array({call("linear", {x, w}, 2)})), {});
  EXPECT_DOUBLE_EQ(product.computing, 2.0 * 64 * 16 * 32 / 20 + 4 * (64 * 32 + 16 * 32 + 64 * 16));
  EXPECT_EQ(product.moving, 0);
  const Work both = aten_work(plan_of(Json::array({call("linear", {x, w}, 2), call("relu", Json::array({y}), 3)})),
                              {.work = {}, .calls = of_any_size({"relu"}), .products = {}});
  EXPECT_DOUBLE_EQ(both.computing - product.computing, 64 * 16 / 20.0 + 4 * 2 * 64 * 16);
}

TEST(BoundWork, IsTheBytesOfWhatALaunchIsGivenEachTensorOnce) {
  const Json x = {{"t", 0}}, w = {{"t", 1}};
  const Plan plan = parse_plan(
      {{"values",
        {{{"dtype", "float32"}, {"shape", {64, 32}}, {"stride", {32, 1}}, {"input", 0}},
         {{"dtype", "float16"}, {"shape", {16, 32}}, {"stride", {32, 1}}, {"weight", "w"}}}},
       {"kernels", {{{"name", "k"}, {"options", Json::object()}, {"ir", Json::object()}, {"errors", Json::object()}}}},
       {"steps",
        {{{"launch", 0}, {"grid", {1, 1, 1}}, {"args", {x, w, x, {{"i", 3}}}}},
         {{"launch", 0}, {"grid", {1, 1, 1}}, {"args", {w}}}}},
       {"outputs", {{"tensor", 0}}},
       {"inputs", 1},
       {"texts", Json::array()},
       {"constants", Json::array()}},
      {});
  const Work work = bound_work(plan, {false, true});
  EXPECT_DOUBLE_EQ(work.computing, 4 * 64 * 32 + 2 * 16 * 32);
  EXPECT_DOUBLE_EQ(work.moving, 2 * 16 * 32);
}

TEST(ProductFlops, AreOfProductsAlone) {
  const Json x = {{"t", 0}}, w = {{"t", 1}}, y = {{"t", 2}};
  const Json both = Json::array({call("linear", {x, w}, 2), call("relu", Json::array({y}), 3)});
  EXPECT_DOUBLE_EQ(product_flops(plan_of(both)), 2.0 * 64 * 16 * 32);
  EXPECT_DOUBLE_EQ(product_flops(plan_of(Json::array({call("_cdist_forward", {x, w}, 2)}))), 2.0 * 64 * 16 * 32);
}

// Of attention: queries, keys, and where a mask is given.
Plan attention(int64_t queries, int64_t keys, const Json& more, const Json& kwargs = Json::object(),
               const std::string& name = "scaled_dot_product_attention") {
  const auto tensor = [](int64_t rows) {
    return Json{{"dtype", "float32"}, {"shape", {8, rows, 4}}, {"stride", {rows * 4, 4, 1}}};
  };
  Json values = {tensor(queries), tensor(keys), tensor(keys), tensor(queries)};
  for (size_t k = 0; k < 3; ++k) values[k]["input"] = k;
  Json args = {{{"t", 0}}, {{"t", 1}}, {{"t", 2}}};
  for (const Json& one : more) args.push_back(one);
  Json step = call(name, args, 3);
  step["kwargs"] = kwargs;
  return parse_plan({{"values", values},
                     {"kernels", Json::array()},
                     {"steps", {step}},
                     {"outputs", {{"tensor", 0}}},
                     {"inputs", 3},
                     {"texts", Json::array()},
                     {"constants", Json::array()}},
                    {});
}

template <typename... Arguments>
double attention_flops(const Arguments&... arguments) {
  return product_flops(attention(arguments...));
}

// Each of 8 heads takes 4 operations an element of 4 for each pair of query and key: 16 * 8 = 128 a pair.
TEST(ProductFlops, OfCausalAttentionAreThoseOfKeysUpToTheQuery) {
  const Json causal = {nullptr, 0, true};
  EXPECT_DOUBLE_EQ(attention_flops(16, 16, Json{nullptr, 0, false}), 128.0 * 256);
  EXPECT_DOUBLE_EQ(attention_flops(16, 16, causal), 128.0 * 136);              // 1 + 2 + ... + 16
  EXPECT_DOUBLE_EQ(attention_flops(16, 32, causal), 128.0 * 136);              // later keys are nobody's
  EXPECT_DOUBLE_EQ(attention_flops(32, 16, causal), 128.0 * (136 + 16 * 16));  // later queries have all
  EXPECT_DOUBLE_EQ(attention_flops(16, 16, Json::array(), Json{{"is_causal", true}}), 128.0 * 136);
  EXPECT_DOUBLE_EQ(
      attention_flops(16, 16, Json{0, true}, Json::object(), "_scaled_dot_product_flash_attention_for_cpu"),
      128.0 * 136);
  EXPECT_EQ(attention_flops(16, 16, Json::array({{{"t", 0}}})), 0);  // whatever its mask leaves
}

TEST(AtenWork, ThatAttentionIsCausalCountsWhereTheReferencesIs) {
  const Plan whole = attention(16, 16, Json::array(), {{"is_causal", false}}),
             causal = attention(16, 16, Json::array(), {{"is_causal", true}});
  const double all = reference_work(whole).work.computing, half = reference_work(causal).work.computing;
  EXPECT_DOUBLE_EQ(all - half, 128.0 * (256 - 136) / 20);
  EXPECT_DOUBLE_EQ(aten_work(causal, reference_work(causal)).computing, half);
  EXPECT_DOUBLE_EQ(aten_work(causal, reference_work(whole)).computing, all);
}

// x [5, 2, 8] and states of 3: 10 rows through [12, 8] and [12, 3].
TEST(ProductFlops, OfARecurrentLayerAreThoseOfItsWeights) {
  const auto tensor = [](std::vector<int64_t> shape) {
    std::vector<int64_t> stride(shape.size(), 1);
    for (size_t d = shape.size() - 1; d-- > 0;) stride[d] = stride[d + 1] * shape[d + 1];
    return Json{{"dtype", "float32"}, {"shape", shape}, {"stride", stride}};
  };
  Json values = {tensor({5, 2, 8}), tensor({1, 2, 3}), tensor({1, 2, 3}), tensor({12, 8}),   tensor({12, 3}),
                 tensor({12}),      tensor({12}),      tensor({5, 2, 3}), tensor({1, 2, 3}), tensor({1, 2, 3})};
  for (size_t k = 0; k < 7; ++k) values[k]["input"] = k;
  const auto t = [](int k) { return Json{{"t", k}}; };
  Json step = call("lstm", {t(0), {t(1), t(2)}, {t(3), t(4), t(5), t(6)}, true, 1, 0.0, false, false, false}, 7);
  step["out"] = {7, 8, 9};
  const Json plan = {
      {"values", values}, {"kernels", Json::array()}, {"steps", {step}},           {"outputs", {{"tensor", 7}}},
      {"inputs", 7},      {"texts", Json::array()},   {"constants", Json::array()}};
  EXPECT_DOUBLE_EQ(product_flops(parse_plan(plan, {})), 2.0 * 10 * (12 * 8 + 12 * 3));
  const Products products = {{8, 2.0 * 10 * 12 * 8}, {3, 2.0 * 10 * 12 * 3}};
  EXPECT_EQ(reference_work(parse_plan(plan, {})).products, products);  // one of them by torch is no piece of the layer
  const double tensors = 4 * (10 * 8 + 2 * 6 + 12 * 8 + 12 * 3 + 2 * 12 + 10 * 3 + 2 * 6), gates = 4 * 2 * 2 * 10 * 12;
  EXPECT_DOUBLE_EQ(reference_work(parse_plan(plan, {})).work.computing,
                   2.0 * 10 * (12 * 8 + 12 * 3) / 20 + tensors + gates);
}

// q [32, 16], k [32, 16], v [32, 8], w [8, 4]: scores q k' are masked, and a last product with w is not.
TEST(ProductFlops, OfWhatAMaskTakesAwayAreNone) {
  const auto tensor = [](int64_t rows, int64_t columns) {
    return Json{{"dtype", "float32"}, {"shape", {rows, columns}}, {"stride", {columns, 1}}};
  };
  Json values = {tensor(32, 16), tensor(32, 16), tensor(32, 8),  tensor(8, 4),    // 0 to 3: inputs
                 tensor(16, 32), tensor(32, 32), tensor(32, 32), tensor(32, 32),  // k', scores, masked, probabilities
                 tensor(32, 8),  tensor(32, 4)};
  for (size_t k = 0; k < 4; ++k) values[k]["input"] = k;
  const auto with = [&](const std::string& after_scores, const std::set<size_t>& with_zeros = {}) {
    const auto t = [](int k) { return Json{{"t", k}}; };
    return product_flops(
        parse_plan({{"values", values},
                    {"kernels", Json::array()},
                    {"steps",
                     {call("t", Json::array({t(1)}), 4), call("mm", {t(0), t(4)}, 5),
                      call(after_scores, Json::array({t(5)}), 6), call("softmax", Json::array({t(6)}), 7),
                      call("mm", {t(7), t(2)}, 8), call("mm", {t(8), t(3)}, 9)}},
                    {"outputs", {{"tensor", 0}}},
                    {"inputs", 4},
                    {"texts", Json::array()},
                    {"constants", Json::array()}},
                   {}),
        with_zeros);
  };
  const double scores = 2 * 32 * 32 * 16, outputs = 2 * 32 * 8 * 32, last = 2 * 32 * 4 * 8;
  EXPECT_DOUBLE_EQ(with("relu"), scores + outputs + last);
  EXPECT_DOUBLE_EQ(with("masked_fill"), last);
  EXPECT_DOUBLE_EQ(with("tril"), last);
  EXPECT_DOUBLE_EQ(with("relu", {2}), scores + last);  // v has zeros, its product with others has none
  EXPECT_DOUBLE_EQ(with("relu", {0, 1}), last);        // both have: so have the scores, and what is made of them
}

TEST(ProductFlops, AnAddendWithZerosTakesNothingAway) {
  const auto tensor = [](const std::vector<int64_t>& shape, int input) {
    Json value = {{"dtype", "float32"}, {"shape", shape}, {"stride", shape}};
    if (input >= 0) value["input"] = input;
    return value;
  };
  const Plan plan = parse_plan(
      {{"values", {tensor({8}, 0), tensor({4, 16}, 1), tensor({16, 8}, 2), tensor({4, 8}, -1)}},
       {"kernels", Json::array()},
       {"steps", {call("addmm", {{{"t", 0}}, {{"t", 1}}, {{"t", 2}}}, 3)}},
       {"outputs", {{"tensor", 0}}},
       {"inputs", 3},
       {"texts", Json::array()},
       {"constants", Json::array()}},
      {});
  EXPECT_DOUBLE_EQ(product_flops(plan, {0}), 2.0 * 4 * 8 * 16);
  EXPECT_EQ(product_flops(plan, {1}), 0);
}

TEST(PartOfZeros, IsWhatItIs) {
  std::vector<float> values(1 << 12, 1.5f);
  for (size_t k = 0; k < values.size(); k += 2) values[k] = 0;
  const TensorView view{.shape = {1 << 12}, .order = {0}, .bytes = std::as_bytes(std::span(values))};
  EXPECT_NEAR(part_of_zeros(view), 0.5, 0.05);
  for (float& value : values) value = -1e-30f;
  EXPECT_EQ(part_of_zeros(view), 0);
}

TEST(AtenWork, ViewsAreFreeAndCopiesAreApart) {
  const Work work = aten_work(
      plan_of(Json::array({call("view", {{{"t", 0}}, {64, 32}}, 2), call("clone", {{{"t", 2}}}, 3)})), {});
  EXPECT_EQ(work.computing, 0);
  EXPECT_DOUBLE_EQ(work.moving, 64 * 16 / 20.0 + 4 * 2 * 64 * 16);
  EXPECT_TRUE(only_moves("aten::copy_"));
  EXPECT_FALSE(only_moves("aten::add_"));
}

// A plan of one call whose tensors have these shapes, the last one being its result.
Json plan_of(const std::string& name, const std::vector<std::vector<int64_t>>& shapes, const Json& more) {
  Json values = Json::array(), args = Json::array();
  for (const auto& shape : shapes) {
    values.push_back({{"dtype", "float32"}, {"shape", shape}, {"stride", shape}});
    if (args.size() + 1 == shapes.size()) continue;
    values.back()["input"] = args.size();
    args.push_back({{"t", args.size()}});
  }
  for (const auto& argument : more) args.push_back(argument);
  return {{"values", values},
          {"kernels", Json::array()},
          {"steps", {call(name, args, static_cast<int>(shapes.size()) - 1)}},
          {"outputs", {{"tensor", 0}}},
          {"inputs", shapes.size() - 1},
          {"texts", Json::array()},
          {"constants", Json::array()}};
}

Work work_of(const std::string& name, const std::vector<std::vector<int64_t>>& shapes, const Json& more = Json::array(),
             const std::set<std::string>& familiar = {}) {
  return aten_work(parse_plan(plan_of(name, shapes, more), {}),
                   {.work = {}, .calls = of_any_size(familiar), .products = {}});
}

TEST(AtenWork, OfATransposedConvolutionEachInputGoesToAFiltersResults) {
  const Json ordinary = {nullptr, {1}, {0}, {1}, false, {0}, 1}, transposed = {nullptr, {1}, {0}, {1}, true, {0}, 1};
  const double bytes = 4 * (2 * 8 * 100 + 8 * 16 * 3 + 2 * 16 * 102);
  EXPECT_DOUBLE_EQ(work_of("convolution", {{2, 8, 100}, {8, 16, 3}, {2, 16, 102}}, transposed).computing,
                   2.0 * (2 * 8 * 100) * (16 * 3) / 20 + bytes);
  EXPECT_DOUBLE_EQ(work_of("convolution", {{2, 8, 102}, {16, 8, 3}, {2, 16, 100}}, ordinary).computing,
                   2.0 * (2 * 16 * 100) * (8 * 3) / 20 + 4 * (2 * 8 * 102 + 16 * 8 * 3 + 2 * 16 * 100));
}

TEST(AtenWork, OfProductsThatAreAddedUpEveryOneCounts) {
  const double results = 24 * 40, bytes = 4 * (results + 64 * 24 * 16 + 64 * 16 * 40 + results);
  for (const char* name : {"addbmm", "addbmm_"}) {
    EXPECT_DOUBLE_EQ(work_of(name, {{24, 40}, {64, 24, 16}, {64, 16, 40}, {24, 40}}).computing,
                     2 * results * 16 * 64 / 20 + bytes + 2 * 4 * results * 64);
  }
}

TEST(AtenWork, OneCallForAFormulaWeighsAsItsCallsWhereTheReferenceSpellsItOut) {
  const double once = 64 * 16 / 20.0 + 4 * 2 * 64 * 16;
  EXPECT_DOUBLE_EQ(work_of("gelu", {{64, 16}, {64, 16}}).computing, 14 * once);
  EXPECT_DOUBLE_EQ(work_of("gelu_", {{64, 16}, {64, 16}}, Json::array(), {"gelu"}).computing, once);
  EXPECT_DOUBLE_EQ(work_of("exp", {{64, 16}, {64, 16}}).computing, once);
  const double window = work_of("avg_pool2d", {{1, 1, 32, 32}, {1, 1, 29, 29}}, {{4, 4}}).computing;
  EXPECT_DOUBLE_EQ(window - work_of("avg_pool2d", {{1, 1, 32, 32}, {1, 1, 29, 29}}, {{4, 4}}, {"avg_pool2d"}).computing,
                   3 * 4 * 29 * 29 * 16);
  const double attention = work_of("scaled_dot_product_attention", {{8, 16, 4}, {8, 32, 4}, {8, 32, 4}, {8, 16, 4}})
                               .computing;
  EXPECT_GT(attention, 18 * 4 * 8 * 16 * 32);
  EXPECT_DOUBLE_EQ(work_of("_cdist_forward", {{48, 24}, {40, 24}, {48, 40}}).computing,
                   4.0 * 48 * 40 * 24 / 20 + 4 * (48 * 24 + 40 * 24 + (1 + 2) * 48 * 40));
}

// Its statistics are a part of the reference's batch norm, which would weigh more in passes of its own than all of it.
TEST(AtenWork, ACallIsTheReferencesForAsManyElementsAsThatHas) {
  const auto gelu_of = [](int64_t rows) {
    return parse_plan(plan_of("gelu", {{rows, 64}, {rows, 64}}, Json::array()), {});
  };
  const ReferenceWork reference = reference_work(gelu_of(16));
  const double row = 64 / 20.0 + 4 * 2 * 64;
  EXPECT_DOUBLE_EQ(aten_work(gelu_of(16), reference).computing, 16 * row);
  EXPECT_DOUBLE_EQ(aten_work(gelu_of(64), reference).computing, (16 + 48 * 14) * row);
}

TEST(AtenWork, APartOfACallOfTheReferencesWeighsAsOneCall) {
  const std::vector<std::vector<int64_t>> shapes = {{64, 16}, {16}};
  const ReferenceWork norm = reference_work(parse_plan(plan_of("batch_norm", {{64, 16}, {64, 16}}, Json::array()), {}));
  const Plan part = parse_plan(plan_of("var_mean", shapes, Json::array()), {});
  std::string heaviest;
  EXPECT_LT(aten_work(part, norm, &heaviest).computing, norm.work.computing);
  EXPECT_EQ(heaviest, "var_mean");
  EXPECT_DOUBLE_EQ(6 * aten_work(part, norm).computing, work_of("var_mean", shapes).computing);
}

TEST(AtenWork, ASelectionWeighsAsTheSortThatTheReferenceTakesItFrom) {
  const std::vector<std::vector<int64_t>> shapes = {{64, 512}, {64, 8}};
  const double alone = work_of("topk", shapes).computing;
  for (const char* sort : {"sort", "argsort"})
    EXPECT_DOUBLE_EQ(work_of("topk", shapes, Json::array(), {sort}).computing, alone + 64 * 512 * (4 + 8));
  EXPECT_DOUBLE_EQ(work_of("topk", shapes, Json::array(), {"sort", "topk"}).computing, alone);
  EXPECT_DOUBLE_EQ(work_of("exp", shapes, Json::array(), {"sort"}).computing, work_of("exp", shapes).computing);
}

TEST(AtenWork, AProductOfAReferenceWithoutAnyWeighsAsItsTerms) {
  const ReferenceWork spelled_out = {.work = {.computing = 1}, .calls = of_any_size({"mul", "sum"}), .products = {}};
  const ReferenceWork with_products = {
      .work = {.computing = 1}, .calls = of_any_size({"bmm"}), .products = {{32, 1024}}};
  const Plan rows = parse_plan(plan_of("mm", {{64, 32}, {32, 1}, {64, 1}}, Json::array()), {});
  const double once = 2.0 * 64 * 32 / 20 + 4 * (64 * 32 + 32 + 64);
  EXPECT_DOUBLE_EQ(aten_work(rows, with_products).computing, once);
  EXPECT_DOUBLE_EQ(aten_work(rows, spelled_out).computing, once + 5 * 4 * 64 * 32);
  // Four times a small product are its pieces, the rest is none of it.
  const ReferenceWork small = {.work = {.computing = 1}, .calls = of_any_size({"bmm"}), .products = {{8, 64}}};
  EXPECT_DOUBLE_EQ(aten_work(rows, small).computing, once + 5 * 4 * (64 * 32 - 4 * 32));
}

TEST(AtenWork, AFactorWithinACallIsAnOperation) {
  Json scaled = plan_of("add", {{64, 16}, {64, 16}, {64, 16}}, Json::array());
  const double once = aten_work(parse_plan(scaled, {}), {}).computing;
  scaled["steps"][0]["kwargs"] = {{"alpha", 3}};
  const Plan plan = parse_plan(scaled, {});
  EXPECT_DOUBLE_EQ(aten_work(plan, {}).computing, once + 2 * 4 * 64 * 16);
  EXPECT_DOUBLE_EQ(aten_work(plan, reference_work(plan)).computing, once);
}

TEST(AtenWork, OneOverXIsOneCallThoughTorchMakesItOfTwo) {
  const auto one_over = [](const std::string& first, Json factor) {
    Json plan = plan_of(first, {{64, 16}, {64, 16}}, Json::array());
    plan["values"].push_back(plan["values"][1]);
    plan["steps"].push_back(call("mul", {{{"t", 1}}, std::move(factor)}, 2));
    return aten_work(parse_plan(plan, {}), {}).computing;
  };
  const double once = one_over("reciprocal", 1);
  EXPECT_DOUBLE_EQ(one_over("reciprocal", 2), 2 * once);
  EXPECT_DOUBLE_EQ(one_over("neg", 1), 2 * once);  // else a copy would cost nothing
}

// Of tensors of these types, in the shapes of plan_of.
Plan in_types(const std::string& name, std::vector<std::vector<int64_t>> shapes,
              const std::vector<std::string>& types) {
  Json plan = plan_of(name, shapes, Json::array());
  for (size_t k = 0; k < types.size(); ++k) plan["values"][k]["dtype"] = types[k];
  return parse_plan(plan, {});
}

TEST(AtenWork, ANarrowerTypeThanTheReferencesWeighsAsTheReferences) {
  const auto work_in = [](const std::string& type, const ReferenceWork& reference) {
    return aten_work(in_types("add", {{64, 512}, {64, 512}, {64, 512}}, {type, type, type}), reference).computing;
  };
  const auto same = [&](const std::string& type) {
    return reference_work(in_types("add", {{64, 512}, {64, 512}, {64, 512}}, {type, type, type}));
  };
  EXPECT_DOUBLE_EQ(work_in("float16", same("float32")), same("float32").work.computing);
  EXPECT_DOUBLE_EQ(work_in("float32", same("float64")), same("float64").work.computing);
  EXPECT_DOUBLE_EQ(work_in("bool", same("int64")), same("int64").work.computing);
  EXPECT_DOUBLE_EQ(work_in("float32", same("float16")), same("float32").work.computing);  // what it is
  EXPECT_DOUBLE_EQ(work_in("float16", same("float16")), same("float16").work.computing);
  EXPECT_DOUBLE_EQ(work_in("float16", {}), same("float16").work.computing);
}

TEST(AtenWork, BoolsAreBytesAsMasksAndNumbersWhereTheyAreComputedWith) {
  const ReferenceWork reference{
      .work = {}, .calls = of_any_size({"gt", "where", "sum", "bitwise_and"}), .products = {}, .width = 4};
  const auto bytes = [&](const std::string& name, const std::vector<std::string>& types) {
    const std::vector<std::vector<int64_t>> shapes(types.size(), {64, 512});
    return aten_work(in_types(name, shapes, types), reference).computing / (64 * 512) - 1 / 20.0;
  };
  EXPECT_DOUBLE_EQ(bytes("gt", {"float32", "float32", "bool"}), 4 + 4 + 1);
  EXPECT_DOUBLE_EQ(bytes("where", {"bool", "float32", "float32", "float32"}), 1 + 4 + 4 + 4);
  EXPECT_DOUBLE_EQ(bytes("sum", {"bool", "int64"}), 4 + 8);
  EXPECT_DOUBLE_EQ(bytes("bitwise_and", {"bool", "bool", "bool"}), 4 + 4 + 4);
}

TEST(ReferenceWork, ItsSmallTensorsSayNothingOfItsTypes) {
  EXPECT_EQ(reference_work(in_types("argmax", {{64, 512}, {64}}, {"float16", "int64"})).width, 2);
  EXPECT_EQ(reference_work(in_types("sort", {{64, 512}, {64, 512}}, {"float16", "int64"})).width, 8);
}

TEST(AtenWork, WhatACallIsGivenTwiceIsReadOnce) {
  Json twice = plan_of("mul", {{64, 16}, {64, 16}}, {{{"t", 0}}});
  EXPECT_DOUBLE_EQ(aten_work(parse_plan(twice, {}), {}).computing, 64 * 16 / 20.0 + 4 * 2 * 64 * 16);
}

TEST(AtenWork, SearchesAndCountsWeighAsTheComparisonsThatTheyStandFor) {
  const double alone = work_of("bucketize", {{512}, {64}, {512}}, Json::array(), {"bucketize"}).computing;
  EXPECT_DOUBLE_EQ(work_of("bucketize", {{512}, {64}, {512}}).computing, alone + 5 * 512 * 64 / 20.0);
  const double counted = work_of("histc", {{512}, {64}}, Json::array(), {"histc"}).computing;
  EXPECT_DOUBLE_EQ(work_of("histc", {{512}, {64}}).computing, counted + 5 * 512 * 64 / 20.0);
  EXPECT_DOUBLE_EQ(work_of("isin", {{512}, {64}, {512}}).computing, 2 * alone + 5 * 512 * 64 / 20.0);
}

TEST(AtenWork, AnOrderWeighsAsAllPairsWhereTheReferenceGoesOverThem) {
  const auto weighs = [](const char* name, const Json& more, double spread) {
    return aten_work(parse_plan(plan_of(name, {{16, 512}, {16, 512}}, more), {}), {.work = {}, .spread = spread})
        .computing;
  };
  const double pairs = 16.0 * 512 * 512, columns = 16.0 * 512 * 16;
  for (const char* name : {"mode", "sort", "cummax", "logcumsumexp"})
    EXPECT_DOUBLE_EQ(weighs(name, {1}, pairs), weighs(name, {1}, 0) + 5 * pairs / 20) << name;
  EXPECT_DOUBLE_EQ(weighs("cumsum", {0}, pairs), weighs("cumsum", {0}, 0) + 5 * columns / 20);
  EXPECT_DOUBLE_EQ(weighs("cumsum", {1}, pairs - 1), weighs("cumsum", {1}, 0));
  EXPECT_DOUBLE_EQ(weighs("exp", Json::array(), pairs), weighs("exp", Json::array(), 0));
}

TEST(AtenWork, ATraceReadsItsDiagonalAndAnUnpoolingHasNoWindows) {
  EXPECT_DOUBLE_EQ(work_of("trace", {{64, 32}, {}}).computing, 3 * (64 * 32 / 20.0 + 4 * (32 + 1)));
  EXPECT_DOUBLE_EQ(work_of("max_unpool2d", {{2, 16}, {2, 16}, {2, 64}}, {{8, 8}}).computing,
                   3 * (2 * 64 / 20.0 + 4 * 2 * (16 + 16 + 64)));
}

TEST(AtenWork, AdaptiveWindowsCountWhereTheyOverlap) {
  const auto hidden = [](int64_t from, int64_t to) {
    const std::vector<std::vector<int64_t>> shapes = {{2, from, from}, {2, to, to}};
    return work_of("adaptive_avg_pool2d", shapes, {{to, to}}).computing -
           work_of("adaptive_avg_pool2d", shapes, {{to, to}}, {"adaptive_avg_pool2d"}).computing;
  };
  EXPECT_DOUBLE_EQ(hidden(33, 32), 3 * 4 * 2 * 32 * 32 * 4);
  EXPECT_DOUBLE_EQ(hidden(32, 16), 0);
}

TEST(AtenWork, ARoundingCastComputesAndATriangleWhereItsMaskIsSpelledOut) {
  Json cast = plan_of("_to_copy", {{64, 16}, {64, 16}}, Json::array());
  EXPECT_GT(aten_work(parse_plan(cast, {}), {}).moving, 0);
  cast["values"][1]["dtype"] = "int32";
  EXPECT_EQ(aten_work(parse_plan(cast, {}), {}).moving, 0);
  EXPECT_EQ(work_of("tril", {{16, 16}, {16, 16}}, Json::array(), {"mul"}).moving, 0);
  EXPECT_EQ(work_of("tril", {{16, 16}, {16, 16}}, Json::array(), {"masked_fill"}).computing, 0);
}

TEST(ReferenceWork, OfLookingUpIsMovingData) {
  const auto of = [](const char* name) {
    return reference_work(parse_plan(plan_of(name, {{16, 32}, {64}, {64, 32}}, Json::array()), {})).work;
  };
  EXPECT_EQ(of("embedding").computing, 0);
  EXPECT_GT(of("embedding").moving, 0);
  EXPECT_GT(of("mul").computing, 0);
}

TEST(AtenWork, WhatOperandsAreBroadcastToCountsByItsOperationsOnly) {
  const Plan outer = parse_plan(plan_of("mul", {{32, 48, 1}, {48, 40}, {32, 48, 40}}, Json::array()), {});
  EXPECT_DOUBLE_EQ(reference_work(outer).work.computing, 32 * 48 * 40 / 20.0 + 4 * (32 * 48 + 48 * 40));
  EXPECT_DOUBLE_EQ(work_of("add", {{64, 16}, {16}, {64, 16}}).computing, 64 * 16 / 20.0 + 4 * (2 * 64 * 16 + 16));
  // An embedding's rows are written, however small its table is.
  EXPECT_DOUBLE_EQ(work_of("embedding", {{16, 32}, {64}, {64, 32}}).computing,
                   64 * 32 / 20.0 + 4 * (16 * 32 + 64 + 64 * 32));
}

// A column of zeros times a row of them, added to x [48, 40]: x is read, what it becomes is written.
TEST(AtenWork, WhatIsAddedToABroadcastResultIsWritten) {
  Json steps = plan_of("mul", {{48, 1}, {40}, {48, 40}}, Json::array());
  const ReferenceWork spread = reference_work(parse_plan(steps, {}));
  EXPECT_DOUBLE_EQ(spread.unwritten, 4 * 48 * 40);
  const Json like = steps["values"][2];
  for (int k = 0; k < 3; ++k) steps["values"].push_back(like);
  steps["values"][3]["input"] = 2;
  steps["inputs"] = 3;
  steps["steps"].push_back(call("add", {{{"t", 3}}, {{"t", 2}}}, 4));
  steps["steps"].push_back(call("relu", Json::array({{{"t", 4}}}), 5));
  const Plan plan = parse_plan(steps, {});
  const double written = 48 * 40 * 3 / 20.0 + 4 * (48 + 40 + 4 * 48 * 40);
  EXPECT_DOUBLE_EQ(reference_work(plan).work.computing, written);
  // As many bytes are spared as the reference was: here that its own product is written, and read.
  EXPECT_DOUBLE_EQ(aten_work(plan, reference_work(plan)).computing, written);
  const ReferenceWork none{.work = {}, .calls = of_any_size({"mul", "add", "relu"}), .products = {}};
  EXPECT_DOUBLE_EQ(aten_work(plan, none).computing, written + 2 * 4 * 48 * 40);
}

TEST(AtenWork, WhatALaunchBroadcastToCountsByItsOperationsWhereTheReferenceBroadcastsAsFar) {
  Json reference = plan_of("mul", {{48, 1}, {40}, {48, 40}}, Json::array()), candidate = reference;
  candidate["kernels"] = {
      {{"name", "k"}, {"ir", Json::object()}, {"options", Json::object()}, {"errors", Json::object()}}};
  candidate["steps"] = {call("empty", {{48, 40}}, 2),
                        {{"launch", 0}, {"grid", {1, 1, 1}}, {"args", {{{"t", 0}}, {{"t", 1}}, {{"t", 2}}}}}};
  for (Json* plan : {&reference, &candidate}) {
    (*plan)["values"].push_back({{"dtype", "float32"}, {"shape", Json::array()}, {"stride", Json::array()}});
    (*plan)["steps"].push_back(call("mean", {{{"t", 2}}}, 3));
  }
  const auto left = [&](const ReferenceWork& work) { return aten_work(parse_plan(candidate, {}), work).computing; };
  const ReferenceWork work = reference_work(parse_plan(reference, {}));
  EXPECT_DOUBLE_EQ(left(work), 48 * 40 / 20.0 + 4);
  EXPECT_DOUBLE_EQ(left({.work = {}, .calls = of_any_size({"mean"}), .products = {}}),
                   48 * 40 / 20.0 + 4 * 48 * 40 + 4);
}

TEST(AtenWork, WhatACallGoesOverWithoutWritingItCounts) {
  // Cosines of all pairs: 8 passes over 48 x 40 x 24.
  EXPECT_DOUBLE_EQ(work_of("cosine_similarity", {{48, 1, 24}, {40, 24}, {48, 40}}).computing,
                   8 * (48 * 40 * 24 / 20.0 + 4 * (48 * 24 + 40 * 24 + 48 * 40)));
  EXPECT_DOUBLE_EQ(work_of("mse_loss", {{48, 1}, {40}, {}}, Json::array(), {"mse_loss"}).computing,
                   48 * 40 / 20.0 + 4 * (48 + 40 + 1));
  // 8 bags of 16 rows of 32; with weights that is a product.
  const double bytes = 4 * (8 * 16 * 32 + 8 * 16 + 8 + 8 * 32);
  EXPECT_DOUBLE_EQ(work_of("_embedding_bag", {{100, 32}, {8 * 16}, {8}, {8, 32}}).computing,
                   8 * 16 * 32 / 20.0 + bytes);
  EXPECT_DOUBLE_EQ(work_of("_embedding_bag", {{100, 32}, {8 * 16}, {8}, {8 * 16}, {8, 32}}).computing,
                   2 * 8 * 16 * 32 / 20.0 + bytes + 4 * 8 * 16);
}

// A reference's call that no plan may have.
ReferenceWork reference_of_unlisted(const std::string& name, const std::vector<std::vector<int64_t>>& shapes,
                                    const Json& more) {
  const Json forward = plan_of(name, shapes, more);
  EXPECT_THROW(parse_plan(forward, {}), Error);
  return reference_work(parse_calls(forward));
}

Work work_of_unlisted(const std::string& name, const std::vector<std::vector<int64_t>>& shapes,
                      const Json& more = Json::array()) {
  return reference_of_unlisted(name, shapes, more).work;
}

TEST(ReferenceWork, OfABilinearFormIsAProductAndASumForEachPlace) {
  // x [64, 32], w [16, 32, 24], y [64, 24]: torch.nn.functional.bilinear's own call.
  EXPECT_DOUBLE_EQ(
      work_of_unlisted("_trilinear", {{64, 32}, {16, 32, 24}, {64, 24}, {64, 16}}, {{1, 3}, {0}, {1, 2}, {2, 3}, 1})
          .computing,
      2.0 * 64 * 16 * 32 * 24 / 20 + 4 * (64 * 32 + 16 * 32 * 24 + 64 * 24 + 64 * 16));
}

TEST(ReferenceWork, OfDistancesHoldsAProductHoweverTorchMakesThem) {
  const std::vector<std::vector<int64_t>> shapes = {{48, 24}, {40, 24}, {48, 40}};
  const ReferenceWork reference = reference_of_unlisted("_euclidean_dist", shapes, Json::array());
  EXPECT_EQ(reference.products, (Products{{24, 2.0 * 48 * 40 * 24}}));
}

TEST(ReferenceWork, OfAFourierTransformIsThatOfAFastOne) {
  const double n = 8 * 64;
  EXPECT_DOUBLE_EQ(work_of_unlisted("_fft_r2c", {{8, 64}, {2, 8, 33}}, {{1}, 0, true}).computing,
                   2.5 * n * 6 / 20 + 4 * (n + 2 * 8 * 33));
  EXPECT_DOUBLE_EQ(work_of_unlisted("_fft_c2c", {{2, 8, 64}, {2, 8, 64}}, {{0, 1}, 0, true}).computing,
                   5 * n * 9 / 20 + 4 * 4 * n);
  EXPECT_DOUBLE_EQ(work_of_unlisted("_fft_c2r", {{2, 8, 33}, {8, 64}}, {{1}, 0, 64}).computing,
                   2.5 * n * 6 / 20 + 4 * (n + 2 * 8 * 33));
}

TEST(ReferenceWork, OfAMatrixsDecompositionIsWhatItTakesAtLeast) {
  const double matrix = 3 * 32 * 32, cube = matrix * 32;
  EXPECT_DOUBLE_EQ(work_of_unlisted("linalg_inv_ex", {{3, 32, 32}, {3, 32, 32}}).computing,
                   2 * cube / 20 + 4 * 2 * matrix);
  const double solved = 3 * 32 * 4;
  EXPECT_DOUBLE_EQ(work_of_unlisted("_linalg_solve_ex", {{3, 32, 32}, {3, 32, 4}, {3, 32, 4}}).computing,
                   (2 / 3.0 * cube + 2 * solved * 32) / 20 + 4 * (matrix + 2 * solved));
  EXPECT_DOUBLE_EQ(work_of_unlisted("linalg_solve_triangular", {{3, 32, 32}, {3, 32, 4}, {3, 32, 4}}).computing,
                   solved * 32 / 20 + 4 * (matrix + 2 * solved));
}

TEST(ReferenceWork, OfACallWithoutAFormulaIsItsBytesAndAnOperationForEachElement) {
  EXPECT_DOUBLE_EQ(work_of_unlisted("renorm", {{16, 8}, {16, 8}}).computing, 128 / 20.0 + 4 * (128 + 128));
}

}  // namespace
}  // namespace tritonforge::evaluate
