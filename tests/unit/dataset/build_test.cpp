#include "dataset/build/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "dataset/outputs/packed.h"
#include "dataset/pair.h"
#include "dataset/problem.h"
#include "dataset/sources/chat.h"
#include "fake_build.h"

namespace tritonforge::dataset {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kTokenizer = std::string(TF_SOURCE_DIR) + "/tests/data/tiny-tokenizer";

// KernelBook-like rows: of every ten the last is the first of the next ten again.
void write_kernelbook(const fs::path& file, int rows) {
  Table table{{{"python_code", Texts()}, {"triton_code", Texts()}, {"entry_point", Texts()}, {"licenses", Texts()}}};
  for (int i = 0; i < rows; ++i) {
    const int number = i % 10 == 9 ? i + 1 : i;
    std::get<Texts>(table.columns[0].values)
        .emplace_back(
            fmt::format("class Foo(nn.Module):\n    def forward(self, x):\n        return torch.relu(x) * {}\n"
                        "def get_inputs():\n    return [torch.rand([{}, 4])]\n"
                        "def get_init_inputs():\n    return [[], {{}}]\n",
                        number, number * 3));
    std::string body;
    for (int line = 0; line < 20; ++line)
      body += fmt::format("    tmp{} = tl.load(in_ptr0 + {})\n", line, number * line);
    std::get<Texts>(table.columns[1].values)
        .emplace_back("@triton.jit\ndef k(in_ptr0):\n" + body + "class FooNew(nn.Module):\n    pass\n");
    std::get<Texts>(table.columns[2].values).emplace_back("Foo");
    std::get<Texts>(table.columns[3].values).emplace_back(i % 2 == 0 ? "MIT" : "Apache-2.0");
  }
  write_parquet(file, table);
}

std::string config_of(const fs::path& folder, const std::string& output, const std::string& more = "") {
  return fmt::format(R"(
name: test
output: {}
tokenizer: {}
seed: 4
{}
sources: [kernelbook: {{path: {}}}]
stages: [clean, convert, thinking: {{from: plan}}, tokens, length: {{min: 10, max: 8000}}, dedup: {{near: 0}},
         split: {{holdout: 0.2}}]
outputs: [jsonl, parquet, packed, megatron, rl_prompts]
)",
                     (folder / output).string(), kTokenizer, more, (folder / "k.parquet").string());
}

Card built(const std::string& config) {
  return Build(YAML::Load(config), "c.yaml", fake_tools()).run([](int64_t) {});
}

TEST(Build, CountsAddUpAndEveryOutputHoldsWhatTheCardSays) {
  TemporaryFolder folder("tf-build");
  write_kernelbook(folder.path() / "k.parquet", 100);
  const Card card = built(config_of(folder.path(), "out"));
  for (size_t i = 0; i < card.stages.size(); ++i) {
    const StageCounts& stage = card.stages[i];
    EXPECT_EQ(stage.in, std::accumulate(stage.dropped.begin(), stage.dropped.end(), stage.kept,
                                        [](int64_t sum, const auto& each) { return sum + each.second; }));
    EXPECT_EQ(stage.in, i == 0 ? 100 : card.stages[i - 1].kept) << stage.name;
  }
  EXPECT_EQ(card.stages[6].dropped.at("exact"), 9);
  EXPECT_EQ(card.licences.at("MIT") + card.licences.at("Apache-2.0"), 91);
  const int64_t train = card.splits.at("train").rows, holdout = card.splits.at("holdout").rows;
  EXPECT_EQ(train + holdout, 91);
  EXPECT_GT(holdout, 5);

  const PackedTokens packed(folder.path() / "out/packed/train");
  EXPECT_EQ(static_cast<int64_t>(packed.size()), train);
  EXPECT_EQ(packed.tokens(), card.splits.at("train").tokens);
  // The packed examples are the conversations of the JSON lines, tokenised.
  const auto codec = tokenizer::load_chat_codec(kTokenizer);
  for (const char* form : {"jsonl", "parquet"}) {
    ChatOptions chat;
    chat.path = folder.path() / "out" / form / (std::string("train.") + form);
    const auto source = make_chat(chat);
    for (size_t i = 0; i < packed.size(); ++i) {
      const auto row = source->next();
      ASSERT_TRUE(row && !row->dropped);
      const auto tokens = tokenizer::taught_tokens(*codec, row->messages, true);
      ASSERT_EQ(packed.example(i).tokens, tokens.tokens);
      ASSERT_EQ(packed.example(i).loss_mask, tokens.loss_mask);
    }
    EXPECT_FALSE(source->next());
  }
  for (const auto& [name, digest] : card.outputs) EXPECT_EQ(checksum_of_file(folder.path() / "out" / name), digest);
  EXPECT_THAT(card_text(to_json(card)),
              AllOf(HasSubstr("dedup"), HasSubstr("Apache-2.0"), HasSubstr("packed/train.tokens")));
}

TEST(Build, TheSameInputsAndSeedGiveTheSameBytesWithAnyThreadsAndBlocks) {
  TemporaryFolder folder("tf-build");
  write_kernelbook(folder.path() / "k.parquet", 60);
  const Card one = built(config_of(folder.path(), "a", "threads: 1")),
             other = built(config_of(folder.path(), "b", "threads: 5\nblock_rows: 7"));
  EXPECT_EQ(one.outputs.size(), 22u);
  auto outputs = other.outputs;
  EXPECT_EQ(one.outputs, outputs);
}

TEST(Build, AFileThatIsCutOffEndsItByNameAndLeavesNothingThatLooksWhole) {
  TemporaryFolder folder("tf-build");
  write_kernelbook(folder.path() / "k.parquet", 60);
  fs::resize_file(folder.path() / "k.parquet", fs::file_size(folder.path() / "k.parquet") / 2);
  try {
    built(config_of(folder.path(), "out"));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("k.parquet"));
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / "out"))
    EXPECT_TRUE(entry.is_directory()) << entry.path();
}

TEST(Build, WhatAnEarlierOnesCardListsIsTakenAwayButForSourcesAndWhatIsOutside) {
  TemporaryFolder folder("tf-build");
  const fs::path out = folder.path() / "out";
  write_kernelbook(folder.path() / "k.parquet", 20);
  fs::create_directories(out / "jsonl");
  Json listed = Json::object();
  for (const char* name : {"jsonl/old.jsonl", "jsonl/read.jsonl", "../outside", "jsonl/../jsonl/odd.jsonl"}) {
    write_file_atomic(out / name, "{}\n");
    listed[name] = "";
  }
  listed[folder.path() / "k.parquet"] = "";
  write_file_atomic(out / "own.txt", "");
  write_file_atomic(out / "card.json", Json{{"outputs", listed}}.dump());
  YAML::Node config = YAML::Load(config_of(folder.path(), "out"));
  config["sources"].push_back(YAML::Load(fmt::format("chat: {{path: {}}}", (out / "jsonl/read.jsonl").string())));
  built(YAML::Dump(config));
  EXPECT_FALSE(fs::exists(out / "jsonl/old.jsonl"));
  EXPECT_FALSE(fs::exists(out / "card.json")) << "the new one is the command's to write";
  for (const char* name :
       {"jsonl/read.jsonl", "../outside", "jsonl/odd.jsonl", "../k.parquet", "own.txt", "jsonl/train.jsonl"})
    EXPECT_TRUE(fs::exists(out / name)) << name;
}

TEST(Build, AConfigurationThatCannotBeSaysWhichKey) {
  TemporaryFolder folder("tf-build");
  write_kernelbook(folder.path() / "k.parquet", 2);
  const std::string good = config_of(folder.path(), "out");
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string config = good;
    config.replace(config.find(from), from.size(), to);
    try {
      Build(YAML::Load(config), "c.yaml", fake_tools());  // before the first row: what rows cost is not spent on it
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_with("seed: 4", "sede: 4"), HasSubstr("did you mean 'seed'"));
  EXPECT_THAT(error_with("[kernelbook:", "[kernelbok:"), HasSubstr("did you mean 'kernelbook'"));
  EXPECT_THAT(error_with("[jsonl, parquet", "[jsonlines, parquet"), HasSubstr("unknown output"));
  EXPECT_THAT(error_with("outputs: [jsonl, parquet, packed, megatron, rl_prompts]", "outputs: []"),
              HasSubstr("'outputs' must be a list"));
  EXPECT_THAT(error_with("[jsonl, parquet", "[jsonl, jsonl"), HasSubstr("'outputs' has jsonl twice"));
  EXPECT_THAT(error_with("tokens, length: {min: 10, max: 8000},", ""), HasSubstr("'packed' needs the stage 'tokens'"));
  EXPECT_THAT(error_with("tokens, length: {min: 10, max: 8000},", "length: {min: 10}, tokens,"),
              HasSubstr("'length' needs the stage 'tokens' before it"));
}

// Pairs that problems can be read from.
Card built_of_pairs(const fs::path& folder, const std::string& stages) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    Pair pair;
    pair.id = fmt::format("pair-{}", i);
    pair.combo = fmt::format("relu-{}", i);
    pair.split = "train";
    pair.families = {"activation"};
    pair.problem = fmt::format("class Model:\n    size = {}\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n", i);
    pair.solution = "s";
    lines += to_json(pair).dump() + "\n";
  }
  write_file_atomic(folder / "pairs.jsonl", lines);
  return built(
      fmt::format("{{name: t, output: {}, sources: [pairs: {{path: {}}}], stages: [{}], outputs: [rl_prompts]}}",
                  (folder / "out").string(), (folder / "pairs.jsonl").string(), stages));
}

TEST(RlPrompts, OfPairsAreReadAsProblems) {
  TemporaryFolder folder("tf-build");
  built_of_pairs(folder.path(), "convert");
  const auto problems = read_problems(folder.path() / "out/kernel_bench_triton_all_levels.jsonl");
  ASSERT_EQ(problems.size(), 40u);
  std::set<int> numbers;
  for (const Problem& problem : problems) numbers.insert(problem.problem_id);
  EXPECT_EQ(numbers.size(), 40u);
  EXPECT_THAT(problems[0].id, HasSubstr("pair-"));
  EXPECT_THAT(problems[0].source, HasSubstr("class Model"));
}

TEST(RlPrompts, AreOfWhatIsNotHeldOut) {
  TemporaryFolder folder("tf-build");
  const Card card = built_of_pairs(folder.path(), "convert, split: {holdout: 0.3}");
  const auto problems = read_problems(folder.path() / "out/kernel_bench_triton_all_levels.jsonl");
  EXPECT_GT(card.splits.at("holdout").rows, 0);
  EXPECT_EQ(static_cast<int64_t>(problems.size()), card.splits.at("train").rows);
}

TEST(SampleOrder, GoesOnAnywhereAndIsTheSameForAnyNumberOfRanks) {
  constexpr uint64_t kPositions = 350;
  SampleOrder whole(100, 9);
  std::vector<size_t> sequence;
  for (uint64_t i = 0; i < kPositions; ++i) sequence.push_back(whole.at(i));
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<size_t> seen(sequence.begin() + static_cast<long>(epoch * 100),
                             sequence.begin() + static_cast<long>(epoch * 100 + 100));
    std::sort(seen.begin(), seen.end());
    for (size_t i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
  }
  EXPECT_NE(std::vector(sequence.begin(), sequence.begin() + 100),
            std::vector(sequence.begin() + 100, sequence.begin() + 200));
  for (const uint64_t ranks : {1u, 2u, 7u}) {
    std::vector<size_t> together(kPositions);
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      SampleOrder own(100, 9);  // begins in the middle: its first position is its rank
      for (uint64_t i = rank; i < kPositions; i += ranks) together[i] = own.at(i);
    }
    EXPECT_EQ(together, sequence) << ranks;
  }
}

TEST(PackedTokens, FilesThatDoNotFitOneAnotherAreRefused) {
  TemporaryFolder folder("tf-build");
  write_kernelbook(folder.path() / "k.parquet", 5);
  built(config_of(folder.path(), "out"));
  const fs::path stem = folder.path() / "out/packed/train";
  EXPECT_NO_THROW(PackedTokens{stem});
  fs::resize_file(stem.string() + ".mask", fs::file_size(stem.string() + ".mask") - 1);
  EXPECT_THROW(PackedTokens{stem}, Error);
}

}  // namespace
}  // namespace tritonforge::dataset
