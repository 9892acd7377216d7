#pragma once
// The data card: what went in and came out of each stage and why, and what is in the result.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"
#include "dataset/build/row.h"

namespace tritonforge::dataset {

struct StageCounts {
  std::string name = "read";
  int64_t in = 0, kept = 0;
  std::map<std::string, int64_t> dropped, repaired;  // by reason
  Json report = Json::object();

  void count(const Row& row, size_t repairs_before);  // a row that came in, after the stage
  void describe(const std::string& stage, Json said) { name = stage, report = std::move(said); }
};

struct Card {
  std::string name, config;
  uint64_t seed = 0;
  std::vector<StageCounts> stages;
  std::map<std::string, std::vector<fs::path>> source_files;

  struct SplitCounts {
    int64_t rows = 0, prompts = 0, tokens = 0, learned = 0, repairs = 0, thoughts = 0;
    std::vector<int64_t> lengths;  // powers of two: [i] counts rows of 2^i .. 2^(i+1) - 1 tokens
  };
  std::map<std::string, SplitCounts> splits;
  std::map<std::string, int64_t> families, licences, sources;  // of the kept rows
  std::map<std::string, std::string> inputs, outputs;          // name -> checksum (XXH3-128)

  void count_kept(const Row& row);
  void add_output(const fs::path& file, const fs::path& folder);
  void digest_sources();
  // What an earlier build left in `folder`, as its card lists it, but for our sources; its card goes last.
  void take_away_earlier(const fs::path& folder) const;
};

// What the card.json of `folder` lists as written, by paths inside of it; nothing where no build has ended in it.
std::optional<std::set<std::string>> outputs_in_card(const fs::path& folder);

Json to_json(const Card& card);
// The card as text: tables of at most 100 columns.
std::string card_text(const Json& card);

}  // namespace tritonforge::dataset
