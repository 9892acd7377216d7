#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "dataset/similarity/minhash.h"
#include "dataset/similarity/python_tokens.h"

namespace tritonforge::dataset {
namespace {

const std::string kKernel = R"(import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Adds."""
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # which
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, tl.sum(x, axis=0) + 1.0, mask=mask)
)";

TEST(NormalForm, IsOfLayoutCommentsAndOwnNamesFree) {
  std::string other = rename_names(kKernel, {{"x", "values"}, {"offs", "o"}, {"add_kernel", "k"}, {"BLOCK", "B"}});
  other.replace(other.find("\"\"\"Adds.\"\"\""), 11, "# nothing\n\n    'other'");
  other.replace(other.find("values = tl.load("), 17, "values = tl.load(\n        ");
  EXPECT_NE(other, kKernel);
  EXPECT_EQ(normal_form(other), normal_form(kKernel));
}

TEST(NormalForm, WhatACallMeansCounts) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kKernel;
    text.replace(text.find(from), from.size(), to);
    return normal_form(text);
  };
  EXPECT_NE(changed("tl.sum", "tl.max"), normal_form(kKernel));
  EXPECT_NE(changed("axis=0", "axis=1"), normal_form(kKernel));
  EXPECT_NE(changed("axis=0", "keep=0"), normal_form(kKernel));
  EXPECT_NE(changed("offs < n", "offs <= n"), normal_form(kKernel));
  EXPECT_NE(changed("mask = offs", "mask = pid"), normal_form(kKernel));
  EXPECT_NE(normal_form("min(a)"), normal_form("max(a)"));
  EXPECT_NE(normal_form("if a:\n  b()\n  c()"), normal_form("if a:\n  b()\nc()"));
}

TEST(NormalForm, WhatIsNoLoopAndNoFunctionBindsNothing) {
  for (const char* text : {"for {0}\n{0}(a)", "x = lambda {0}\n{0}(a)", "def f({0}", "for {0} for b in c: {0}(a)"})
    EXPECT_NE(normal_form(fmt::format(fmt::runtime(text), "min")), normal_form(fmt::format(fmt::runtime(text), "max")))
        << text;
  EXPECT_EQ(normal_form("[a(i) for i, (j, k) in b if i in c]"), normal_form("[a(x) for x, (y, z) in b if x in c]"));
  EXPECT_EQ(normal_form("def f(a, key=lambda v, w: v): pass"), normal_form("def g(b, key=lambda x, y: x): pass"));
  for (const std::string word : {"for ", "lambda ", "def f("}) {  // with a scan to the end for each: minutes
    std::string text;
    for (int i = 0; i < 300'000; ++i) text += word;
    EXPECT_GT(normal_form(text).size(), 300'000u);
  }
}

TEST(RenameNames, LeavesAttributesStringsAndPartsOfNamesAlone) {
  EXPECT_EQ(
      rename_names("class Foo(nn.Module):\n  x.Foo = 'Foo'  # Foo\n  super(Foo, self); FooNew", {{"Foo", "Model"}}),
      "class Model(nn.Module):\n  x.Foo = 'Foo'  # Foo\n  super(Model, self); FooNew");
}

TEST(PythonTokens, AnyBytesGiveTokensOfTheirOwnText) {
  Rng rng(3);
  const std::string alphabet = "ab_0 .,()[]{}'\"\\\n\r\t#=:rR\xC3\xFF";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t i = rng.below(40); i > 0; --i) text += alphabet[rng.below(alphabet.size())];
    const char* last = text.data();
    for (const PythonToken& token : python_tokens(text)) {
      ASSERT_GE(token.text.data(), last);
      last = token.text.data() + token.text.size();
      ASSERT_LE(last, text.data() + text.size());
    }
    normal_form(text);
    EXPECT_EQ(rename_names(text, {}), text);
  }
}

std::vector<uint64_t> random_form(Rng& rng, size_t size) {
  std::vector<uint64_t> form;
  for (size_t i = 0; i < size; ++i) form.push_back(rng.next());
  return form;
}

// Two forms with a common begin have the Jaccard similarity of their shingles.
TEST(Signature, EstimatesTheJaccardSimilarity) {
  Rng rng(7);
  for (const double share : {0.5, 0.8, 0.9}) {
    double mean = 0;
    for (int round = 0; round < 40; ++round) {
      std::vector<uint64_t> a = random_form(rng, 3000), b = a;
      const size_t common = static_cast<size_t>(3000 * 2 * share / (1 + share));
      for (size_t i = common; i < b.size(); ++i) b[i] = rng.next();
      mean += similarity(signature_of(a), signature_of(b)) / 40;
    }
    EXPECT_NEAR(mean, share, 0.02);
  }
  EXPECT_EQ(similarity(signature_of(random_form(rng, 3)), signature_of(random_form(rng, 3))), 0);
}

TEST(NearIndex, FindsWhatIsAboveTheThresholdAndTheMostSimilar) {
  Rng rng(11);
  NearIndex index;
  std::vector<std::vector<uint64_t>> forms;
  for (int i = 0; i < 3000; ++i) {
    forms.push_back(random_form(rng, 60));
    EXPECT_EQ(index.add(signature_of(forms.back())), static_cast<uint32_t>(i));
  }
  for (const size_t wanted : {0u, 17u, 2999u}) {
    std::vector<uint64_t> near = forms[wanted];
    near.back() = 1;  // one shingle of 56 changed: 55 / 57
    const auto match = index.find(signature_of(near), 0.8);
    ASSERT_TRUE(match);
    EXPECT_EQ(match->entry, wanted);
    EXPECT_FALSE(index.find(signature_of(random_form(rng, 60)), 0.3));
  }
}

}  // namespace
}  // namespace tritonforge::dataset
