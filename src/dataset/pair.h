#pragma once
// A verified pair: a PyTorch problem, a Triton solution, and the conversation that teaches it. One JSON line each.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"
#include "dataset/problem.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::dataset {

struct Refinement {      // a first attempt that the evaluator refused
  std::string mistake;   // kind of it: "wrong_operator", "syntax", ...
  std::string wrong;     // its source
  std::string feedback;  // what the rollout would have answered to its verdict
};

struct Pair {
  std::string id;
  std::vector<std::string> families;  // in the order in which they are applied
  std::string combo;                  // "relu+mul+row_sum"
  std::string style;                  // compact | full
  // train: for SFT and RL; rl: combinations for RL only; holdout: combinations that nothing but the bench ever sees.
  std::string split;
  std::string problem, solution;
  std::vector<Refinement> refinements;  // one behind the other, each nearer to the solution
  // user, assistant (the solution); with a refinement: user, assistant (wrong), user (feedback), assistant (solution).
  // Only the last message carries loss. May be left out of a file: it follows from the rest (and the prompt's style).
  std::vector<tokenizer::Message> messages;
  bool verified = false;  // the evaluator accepted the solution
  uint64_t seed = 0;      // of the draw
};

Json to_json(const Pair& pair);
Pair pair_from_json(const Json& json, std::string_view where);  // throws kUsage naming the field
// Throws kNotFound / kUsage naming file and line.
std::vector<Pair> read_pairs(const fs::path& file);
std::vector<Pair> parse_pairs_jsonl(std::string_view text, std::string_view where);

// The pair's problem, numbered within its level (1: one family, 2: several).
Problem problem_of(const Pair& pair, int number);

struct PairStats {
  struct Length {
    size_t min = 0, median = 0, max = 0;
  };
  size_t pairs = 0, verified = 0;
  size_t refinements = 0, several_refinements = 0;  // pairs with one or more, with more than one
  size_t duplicates = 0;                            // problems that an earlier line has already
  size_t leaked = 0;                                // held-out or rl combinations (in any order) that train has too
  std::map<std::string, size_t> by_split, by_family, by_combo, by_style, by_mistake, by_chain_length;
  Length problem_chars, solution_chars;
};
PairStats stats_of(const std::vector<Pair>& pairs);
Json to_json(const PairStats& stats);

}  // namespace tritonforge::dataset
