#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode.h"
#include "unit/base/gguf_builder.h"

namespace tritonforge::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kTiny = fs::path(TF_SOURCE_DIR) / "tests/data/tiny-tokenizer";

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::load(kTiny);
  return tokenizer;
}

std::string message_of(const auto& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* next = next_word(at, end);
    result.emplace_back(at, next);
    at = next;
  }
  return result;
}

TEST(Pretokenizer, FollowsThePatternsAlternativesInOrder) {
  EXPECT_THAT(words("It's we'LL 'so"), ElementsAre("It", "'s", " we", "'LL", " '", "so"));
  EXPECT_THAT(words("(foo) ++\n\nx"), ElementsAre("(foo", ")", " ++\n\n", "x"));
  EXPECT_THAT(words("a123"), ElementsAre("a", "1", "2", "3"));
  EXPECT_THAT(words("a   b  \n \n  c  "), ElementsAre("a", "  ", " b", "  \n \n", " ", " c", "  "));
  EXPECT_THAT(words("\tx \ty 1"), ElementsAre("\tx", " ", "\ty", " ", "1"));
  EXPECT_THAT(words("'\xC5\xBFt"), ElementsAre("'\xC5\xBF", "t"));  // the long s folds to s
  EXPECT_THAT(words("a\xFF\xFE b"), ElementsAre("a", "\xFF\xFE", " b"));
}

TEST(Unicode, NormalisesAroundWhatChanges) {
  EXPECT_EQ(unicode::nfc("e\u0301x"), "\u00e9x");
  EXPECT_EQ(unicode::nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(unicode::nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(unicode::nfc("\u212b e\xFF\u0301"), "\u00c5 e\xFF\u0301");
  EXPECT_FALSE(unicode::may_change_under_nfc("plain, 世界 é 한국어 👍"));
}

// A sort that moves each mark past those before it would take minutes here.
TEST(Unicode, LongRunsOfMarksAreSortedByTheirClass) {
  constexpr int kOfEach = 250'000;
  const std::string above = "\u0307", below = "\u0323";
  std::string mixed = "q", sorted = "q";
  for (int i = 0; i < kOfEach; ++i) mixed += above;
  for (int i = 0; i < kOfEach; ++i) sorted += below, mixed += below;
  for (int i = 0; i < kOfEach; ++i) sorted += above;
  EXPECT_TRUE(unicode::nfc(mixed) == sorted);
}

TEST(Unicode, ReplacesWhatIsNotValidOnceForEachPart) {
  EXPECT_EQ(unicode::replace_invalid_utf8("a\xE4\xB8z\xFF"), "a\uFFFDz\uFFFD");
  EXPECT_EQ(unicode::replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(unicode::unfinished_tail("ab\xF0\x9F\x91"), 3u);
  EXPECT_EQ(unicode::unfinished_tail("ab\xFF"), 0u);
}

TEST(TokenizerTest, NoByteIsLost) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  for (const std::string& text : {all, all + all, std::string("\xE4\xB8"), std::string(), std::string(100000, 'a')}) {
    std::string bytes;
    for (const int64_t id : tiny().encode(text)) bytes += tiny().token_bytes(id);
    EXPECT_EQ(bytes, text);
  }
}

TEST(TokenizerTest, AddedTokensAreSplitOffLongestFirst) {
  const auto id = [](const char* token) { return tiny().id_of(token).value(); };
  EXPECT_THAT(tiny().encode("<|im_start|><think></think><|im_end|>"),
              ElementsAre(id("<|im_start|>"), id("<think>"), id("</think>"), id("<|im_end|>")));
  EXPECT_TRUE(tiny().is_special(id("<|im_end|>")));
  EXPECT_FALSE(tiny().is_special(id("<think>")));
  EXPECT_EQ(tiny().decode(tiny().encode("a<|im_end|>b<think>"), /*skip_special_tokens=*/true), "ab<think>");
  EXPECT_EQ(tiny().eos_id(), tiny().id_of("<|im_end|>"));
  EXPECT_EQ(tiny().vocab_size(), id("</think>") + 1);
  EXPECT_EQ(tiny().id_of("no such token"), std::nullopt);
}

TEST(TokenizerTest, IdsWithoutATokenDecodeToNothing) {
  EXPECT_EQ(tiny().decode({-1, 1 << 30, tiny().encode("a")[0]}), "a");
  EXPECT_EQ(tiny().token_bytes(-1), "");
  EXPECT_FALSE(tiny().is_special(1 << 30));
}

TEST(TokenizerTest, ThreadsGetTheSameIds) {
  const std::string text = read_file(kTiny / "make.py");
  const auto expected = tiny().encode(text);
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) equal[t] += tiny().encode(text) == expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(equal, ::testing::Each(20));
}

TEST(TokenizerTest, ASavedTokenizerIsTheSame) {
  const TemporaryFolder folder("tokenizer-test");
  tiny().save(folder.path() / "copy");
  EXPECT_EQ(read_file(folder.path() / "copy/tokenizer.json"), read_file(kTiny / "tokenizer.json"));
  const Tokenizer copy = Tokenizer::load(folder.path() / "copy/tokenizer.json");
  EXPECT_EQ(copy.eos_id(), tiny().eos_id());
}

TEST(TokenizerTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(message_of([] { Tokenizer::load("/nowhere/x"); }, ErrorKind::kNotFound), HasSubstr("/nowhere/x"));
  const TemporaryFolder folder("tokenizer-test");
  EXPECT_THAT(message_of([&] { Tokenizer::load(folder.path()); }, ErrorKind::kNotFound), HasSubstr("tokenizer.json"));
  write_file_atomic(folder.path() / "tokenizer.json", read_file(kTiny / "tokenizer.json").substr(0, 5000));
  EXPECT_THAT(message_of([&] { Tokenizer::load(folder.path()); }, ErrorKind::kCorrupt), HasSubstr("not valid JSON"));
  write_file_atomic(folder.path() / "tokenizer.json", read_file(kTiny / "tokenizer.json"));
  write_file_atomic(folder.path() / "tokenizer_config.json", R"({"eos_token": "<end>"})");
  EXPECT_THAT(message_of([&] { Tokenizer::load(folder.path()); }, ErrorKind::kCorrupt), HasSubstr("'<end>'"));
  write_file_atomic(folder.path() / "tokenizer_config.json",
                    R"({"added_tokens_decoder": {"9999": {"content": "<x>"}}})");
  EXPECT_THAT(message_of([&] { Tokenizer::load(folder.path()); }, ErrorKind::kUnsupported), HasSubstr("'<x>' (9999)"));
}

TEST(StreamDecoderTest, HoldsBackUnfinishedCharacters) {
  StreamDecoder stream(tiny());
  std::string all;
  for (const int64_t id : tiny().encode("naïve 世界 👍🏽<|im_end|>")) {
    const std::string part = stream.feed(id);
    EXPECT_TRUE(unicode::is_valid_utf8(part));
    EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
    all += part;
  }
  EXPECT_EQ(all + stream.finish(), "naïve 世界 👍🏽");
  stream.feed(tiny().encode("\xE4")[0]);
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

// The tiny vocabulary as GGUF, with padding behind it.
std::string tiny_as_gguf(const std::string& pre = "qwen2", int32_t last_type = 5) {
  const TokenizerDefinition definition = read_definition(kTiny);
  std::vector<std::string> tokens = definition.tokens, merges;
  std::vector<int32_t> types(tokens.size(), 1);
  for (const auto& token : definition.added) types[static_cast<size_t>(token.id)] = token.special ? 3 : 4;
  tokens.push_back("[PAD1]");
  types.push_back(last_type);
  for (const auto& merge : definition.merges) merges.push_back(tokens[merge.left] + " " + tokens[merge.right]);
  ::tritonforge::testing::GgufBuilder b;
  b.header(3, 0, 7);
  b.key("tokenizer.ggml.model", 8).text("gpt2").key("tokenizer.ggml.pre", 8).text(pre);
  b.texts("tokenizer.ggml.tokens", tokens)
      .integers("tokenizer.ggml.token_type", types)
      .texts("tokenizer.ggml.merges", merges);
  b.key("tokenizer.ggml.eos_token_id", 4).raw<uint32_t>(static_cast<uint32_t>(*definition.eos_id));
  b.key("tokenizer.chat_template", 8).text("{{ x }}");
  return b.bytes();
}

TEST(GgufTokenizer, EqualsTheOneFromJsonAndSavesAsOne) {
  const TemporaryFolder folder("tokenizer-test");
  write_file_atomic(folder.path() / "x.gguf", tiny_as_gguf());
  const Tokenizer from_gguf = Tokenizer::load(folder.path() / "x.gguf");
  from_gguf.save(folder.path());
  const Tokenizer saved = Tokenizer::load(folder.path());
  const std::string text = read_file(kTiny / "make.py") + "e\u0301<think>x<|im_end|>";
  for (const Tokenizer* tokenizer : {&from_gguf, &saved}) {
    EXPECT_EQ(tokenizer->encode(text), tiny().encode(text));
    EXPECT_EQ(tokenizer->vocab_size(), tiny().vocab_size());
    EXPECT_EQ(tokenizer->eos_id(), tiny().eos_id());
    EXPECT_EQ(tokenizer->chat_template(), "{{ x }}");
    EXPECT_TRUE(tokenizer->is_special(*tiny().id_of("<|im_end|>")));
    EXPECT_FALSE(tokenizer->is_special(*tiny().id_of("<think>")));
  }
}

TEST(GgufTokenizer, OtherKindsAreRefusedByName) {
  const TemporaryFolder folder("tokenizer-test");
  const fs::path path = folder.path() / "x.gguf";
  write_file_atomic(path, tiny_as_gguf("llama-bpe"));
  EXPECT_THAT(message_of([&] { Tokenizer::load(path); }, ErrorKind::kUnsupported),
              HasSubstr("tokenizer.ggml.pre = 'llama-bpe'"));
  write_file_atomic(path, tiny_as_gguf("qwen2", 6));
  EXPECT_THAT(message_of([&] { Tokenizer::load(path); }, ErrorKind::kUnsupported), HasSubstr("'[PAD1]' is of type 6"));
}

TEST(BpeTrainer, LearnsFrequentPairsDeterministically) {
  const std::vector<std::string> texts(20, "tl.load(x_ptr + offsets, mask=mask)\n<|im_end|>tl.store(y_ptr, y)");
  BpeTrainerOptions options;
  options.vocab_size = 280;
  const TokenizerDefinition a = train_bpe(texts, options), b = train_bpe(texts, options);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.tokens.size(), 280u);
  const Tokenizer tokenizer(a);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(texts[0])), texts[0]);
  EXPECT_LT(tokenizer.encode(texts[0]).size(), 40u);
  options.vocab_size = 260;
  EXPECT_THAT(message_of([&] { train_bpe(texts, options); }, ErrorKind::kUsage), HasSubstr("no room"));
}

TEST(BpeTrainer, RepeatedLettersCountAsTheyAreMerged) {
  const Tokenizer tokenizer(train_bpe({std::string(64, 'a'), std::string(64, 'a')}, BpeTrainerOptions()));
  EXPECT_EQ(tokenizer.encode(std::string(64, 'a')).size(), 1u);
}

}  // namespace
}  // namespace tritonforge::tokenizer
