#pragma once
// What goes through a build: a pair, a trajectory or a conversation, and what became of it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "contract/verdict.h"
#include "dataset/similarity/minhash.h"
#include "tokenizer/chat_codec.h"

namespace tritonforge::dataset {

struct Attempt {  // one that the evaluator refused, before the solution
  std::string code;
  std::string text;      // what was answered; "" = the code in one block
  std::string feedback;  // what was said to it
};

struct Row {
  // Where it is from.
  std::string uuid;    // of the source's own, else a checksum of its content
  std::string source;  // the source's name in the configuration
  std::string place;   // "pairs.jsonl:12", "train.parquet row 3"
  std::string licence, repository, family, name;
  std::optional<int64_t> stars;  // of the repository
  std::vector<std::string> families;
  int level = 0, problem_id = 0;

  // What it holds, as Python. A row without a solution is a prompt: nothing of it is learned.
  std::string problem, solution;
  std::string entry_point;                  // the problem's class where it is not called Model
  std::string reasoning;                    // given with the solution
  std::string answer;                       // the solution's text as it was said; "" = the code in one block
  std::vector<tokenizer::Message> opening;  // as it was asked; empty: as the stage `convert` asks
  std::vector<Attempt> attempts;
  // The conversation: given, or made by the stage `convert`. In it `learned` says which answers carry loss.
  std::vector<tokenizer::TaughtMessage> messages;

  // What the stages found.
  std::optional<Verdict> verdict;  // of the solution
  tokenizer::MaskedTokens tokens;
  struct Compared {
    uint64_t exact = 0, normalised = 0;
    Signature signature{};
  } compared;  // of compared_text(), by the stage `dedup`
  std::string split = "train";
  std::vector<std::string> repairs;  // "crlf", "bom", ...: nothing is changed silently
  struct Drop {
    std::string stage, reason;  // the reason is one of few: it is counted
    std::string detail;         // what is particular to the row
  };
  std::optional<Drop> dropped;
  std::string line;  // to_json(), printed: by the output `jsonl`

  bool learns() const;  // whether any of it is learned from
  void drop(std::string stage, std::string reason, std::string detail = "") {
    if (!dropped) dropped = Drop{std::move(stage), std::move(reason), std::move(detail)};
  }
  // Bytes that it takes, about.
  size_t size() const;
};

// What duplicates are looked for in: problem and solution, or the texts of the conversation.
std::string compared_text(const Row& row);

// One line of a data set: messages with role, content, reasoning_content and weight (1 = learned), and where they are
// from. The source `chat` reads it back.
Json to_json(const Row& row);

}  // namespace tritonforge::dataset
