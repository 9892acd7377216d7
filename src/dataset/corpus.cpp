#include "dataset/corpus.h"

#include <fmt/format.h>

#include <vector>

#include "dataset/compose.h"

namespace tritonforge::dataset {
namespace {

using Words = std::vector<std::string_view>;

const Words kNouns{"item", "value", "row",   "node", "word",   "score", "price", "name",
                   "key",  "point", "count", "line", "record", "token", "weight"};
const Words kVerbs{"sum",  "count", "find",  "collect", "filter", "merge", "scale",
                   "sort", "group", "split", "check",   "update", "read",  "join"};

std::string word(const Words& words, Rng& rng) { return std::string(words[rng.below(words.size())]); }
std::string number(Rng& rng) {
  return rng.below(4) == 0 ? fmt::format("{:.1f}", rng.uniform() * 5) : std::to_string(rng.below(100));
}

// Functions in the shapes that beginners' Python has: loops, comprehensions, early returns, dictionaries, small
// classes.
const Words kSnippets{
    "def {verb}_{noun}s({noun}s):\n    total = 0\n    for {noun} in {noun}s:\n        total = total + {noun} * {a}\n   "
    " return total\n",
    "def {verb}_{noun}({noun}, limit={a}):\n    if {noun} > limit:\n        return limit\n    return {noun} + {b}\n",
    "def {verb}_{noun}s({noun}s):\n    return [{noun} - {a} for {noun} in {noun}s if {noun} > {b}]\n",
    "def {verb}_by_{noun}({other}s):\n    groups = dict()\n    for {other} in {other}s:\n        key = "
    "{other}.{noun}\n        if key not in groups:\n"
    "            groups[key] = []\n        groups[key].append({other})\n    return groups\n",
    "class {Noun}:\n    def __init__(self, {other}, size={a}):\n        self.{other} = {other}\n        self.size = "
    "size\n\n"
    "    def {verb}(self, step={b}):\n        self.size = self.size + step\n        return self.{other}\n",
    "{noun}s = [{a}, {b}, {c}]\nfor i, {noun} in enumerate({noun}s):\n    print(i, {noun} + {a})\n",
    "def {verb}_{noun}s(left, right):\n    out = []\n    i = 0\n    while i < len(left) and i < len(right):\n        "
    "out.append(max(left[i], right[i]))\n"
    "        i = i + 1\n    return out\n",
    "def {verb}_{noun}(text):\n    parts = text.split(\",\")\n    if len(parts) < {a}:\n        raise ValueError(\"too "
    "few {noun}s\")\n"
    "    return [part.strip() for part in parts]\n",
    "def mean_{noun}({noun}s):\n    n = len({noun}s)\n    if n == 0:\n        return 0.0\n    return sum({noun}s) / "
    "n\n",
    "def {verb}_matrix(rows, cols, {noun}={a}):\n    return [[i * cols + j + {noun} for j in range(cols)] for i in "
    "range(rows)]\n",
    "import torch\n\n{noun} = torch.zeros({a}, {b})\n{other} = torch.ones({b})\nprint(({noun} - {other}).shape)\n",
    "import torch\n\ndef {verb}_{noun}s({noun}s):\n    stacked = torch.stack({noun}s)\n    return "
    "stacked.reshape(-1)[:{a}]\n",
};

std::string snippet(Rng& rng) {
  std::string noun = word(kNouns, rng), other = word(kNouns, rng);
  while (other == noun) other = word(kNouns, rng);
  std::string capital = noun;
  capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
  std::string text(kSnippets[rng.below(kSnippets.size())]);
  return fill(text, {{"noun", noun},
                     {"other", other},
                     {"Noun", capital},
                     {"verb", word(kVerbs, rng)},
                     {"a", number(rng)},
                     {"b", number(rng)},
                     {"c", number(rng)}});
}

Composition draw_known(Rng& rng) {
  static const auto families = operators_of(FamilySet::kCorpus);
  for (;;) {
    if (auto made = draw_composition(PairStyle::kCompact, families, rng)) return *made;
  }
}

}  // namespace

std::string corpus_text(uint64_t seed, uint64_t index) {
  Rng rng(Rng::derive(Rng::derive(seed, "corpus"), index));
  const uint64_t kind = rng.below(20);
  if (kind < 4) {
    std::string text = snippet(rng);
    for (uint64_t more = rng.below(3); more > 0; --more) text += "\n" + snippet(rng);
    return text;
  }
  const auto made = draw_known(rng);
  if (kind < 6) return problem_source(made);
  if (kind < 9) return solution_source(made);
  return "<|im_start|>user\n" + problem_source(made) + "<|im_end|>\n<|im_start|>assistant\n```python\n" +
         solution_source(made) + "```<|im_end|>\n";
}

}  // namespace tritonforge::dataset
