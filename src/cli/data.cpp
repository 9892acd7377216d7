// tritonforge data generate | problems | stats | text; build and show are in data_build.cpp, capture in
// data_capture.cpp
#include <fmt/format.h>

#include <memory>

#include "base/process.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/data_build.h"
#include "cli/data_capture.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/pair_work.h"
#include "dataset/corpus.h"
#include "dataset/generate.h"

namespace tritonforge::cli {
namespace {

// How many problems of each part go to its folder; 0: all.
struct EmitCounts {
  int64_t holdout = 0, rl = 0;
};

struct GenerateFlags {
  dataset::GenerateOptions options;
  std::string output, emit_problems;
  Judging judging;
  std::optional<PromptStyle> prompt;
  EmitCounts emit_most;
  bool messages = true, json = false;

  template <typename V>
  void describe(V& v) {
    v("output", output, required(), "JSON lines file to write");
    v.part(options);
    v("prompt", prompt, "of the conversations; minimal for compact pairs and kernelbench for full ones where empty");
    v("emit_problems", emit_problems, "folder for holdout/ (held-out problems) and rl/ (the others)");
    v("emit_holdout", emit_most.holdout, at_least(0), "at most so many problems in holdout/; 0 = all");
    v("emit_rl", emit_most.rl, at_least(0), "at most so many problems in rl/; 0 = all");
    v("messages", messages, "the conversations, which follow from the rest and take space");
    v.part(judging);
    v("json", json, "prints the result as JSON");
  }
};

struct StatsFlags {
  std::string pairs;
  std::string page;
  bool json = false;
  void describe(OptionList& v) {
    v("json", json, "prints the counts as JSON");
    v("page", page, "of a folder: writes the card as a page with histograms and sample rows");
  }
};

struct ProblemsFlags {
  std::string pairs, output;
  EmitCounts most;
  void describe(OptionList& v) {
    v("output", output, required(), "folder to write to");
    v("holdout", most.holdout, at_least(0), "at most so many held-out problems; 0 = all");
    v("rl", most.rl, at_least(0), "at most so many problems for RL; 0 = all");
  }
};

struct TextFlags {
  std::string output;
  int64_t count = 10000;
  uint64_t seed = 0;
  void describe(OptionList& v) {
    v("output", output, required(), "JSON lines file to write");
    v("count", count, at_least(1), "texts to write");
    v("seed", seed, "seed of the draws");
  }
};

// --holdout a.jsonl (its held-out combinations), or families and combinations, separated by commas.
std::vector<std::string> read_holdout(const std::vector<std::string>& given) {
  std::vector<std::string> entries;
  for (const auto& entry : given) {
    if (!entry.ends_with(".jsonl")) {
      entries.push_back(entry);
      continue;
    }
    for (const auto& pair : dataset::read_pairs(entry)) {
      if (pair.split == "holdout") entries.push_back(dataset::combo_key(pair.families));
    }
  }
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

// holdout/: the held-out problems; rl/: the others, combinations for RL only first. How many of each.
EmitCounts emit_problems(const fs::path& folder, const fs::path& pairs_file, const EmitCounts& most) {
  auto pairs = dataset::read_pairs(pairs_file);
  std::stable_partition(pairs.begin(), pairs.end(), [](const dataset::Pair& pair) { return pair.split == "rl"; });
  std::map<std::string, std::pair<int64_t, std::string>> sets{{"holdout", {}}, {"rl", {}}};
  for (const auto& pair : pairs) {
    const bool held_out = pair.split == "holdout";
    auto& [count, lines] = sets[held_out ? "holdout" : "rl"];
    const int64_t limit = held_out ? most.holdout : most.rl;
    if (limit == 0 || count < limit) lines += dataset::problem_line(dataset::problem_of(pair, ++count)) + "\n";
  }
  if (pairs.empty()) fail(ErrorKind::kUsage, "{} holds no pairs", pairs_file.string());
  for (const auto& [name, set] : sets) {
    make_folder(folder / name);
    write_file_atomic(folder / name / "problems.jsonl", set.second);
  }
  return {.holdout = sets["holdout"].first, .rl = sets["rl"].first};
}

void generate(const GenerateFlags& flags) {
  dataset::GenerateOptions options = flags.options;
  options.holdout = read_holdout(options.holdout);
  options.validate();
  const bool compact = options.style == dataset::PairStyle::kCompact;
  const auto prompt = flags.prompt.value_or(compact ? PromptStyle::kMinimal : PromptStyle::kKernelBench);
  SignalWaiter signals;
  PairFile file(flags.output);
  const EndsAtSignal ends([&file](int number) { file.tell_stopped(number); });
  PairEvaluator evaluator(flags.judging, options.workers);
  file.open();
  Progress progress("pairs", options.count);
  int64_t written = 0;
  const auto report = dataset::generate_pairs(options, evaluator.ask(), conversation_texts(prompt),
                                              [&](const dataset::Pair& pair) {
                                                file.write(pair, flags.messages);
                                                progress.advance_to(++written);
                                              });
  file.finish();
  progress.finish();
  if (!flags.emit_problems.empty()) emit_problems(flags.emit_problems, flags.output, flags.emit_most);

  if (flags.json) {
    fmt::print("{}\n", Json{{"output", flags.output},
                            {"written", report.written},
                            {"refinements", report.refinements},
                            {"evaluations", report.evaluations},
                            {"rejected", report.rejected},
                            {"rejected_by", report.rejected_by},
                            {"harmless_mistakes", report.harmless_mistakes},
                            {"seconds", report.seconds}}
                           .dump());
    return;
  }
  fmt::print("{} pairs ({} with a refinement) in {} -> {}; {} evaluations, {} solutions refused\n", report.written,
             report.refinements, format_duration(report.seconds), flags.output, report.evaluations,
             report.rejected.size());
  if (!report.rejected_by.empty()) print_counts("refused", report.rejected_by);
  for (const auto& reason : report.rejected) fmt::print(stderr, "refused: {}\n", reason);
}

void print_stats(const StatsFlags& flags) {
  if (fs::is_directory(flags.pairs)) return print_card(flags.pairs, flags.json, flags.page);
  const auto stats = dataset::stats_of(dataset::read_pairs(flags.pairs));
  if (flags.json) {
    fmt::print("{}\n", to_json(stats).dump());
    return;
  }
  fmt::print(
      "{} pairs, {} verified, {} with a refinement ({} with two), {} distinct combinations, {} duplicates, {} leaked "
      "into train\n",
      stats.pairs, stats.verified, stats.refinements, stats.several_refinements, stats.by_combo.size(),
      stats.duplicates, stats.leaked);
  fmt::print("characters of a problem {}..{} (median {}), of a solution {}..{} (median {})\n", stats.problem_chars.min,
             stats.problem_chars.max, stats.problem_chars.median, stats.solution_chars.min, stats.solution_chars.max,
             stats.solution_chars.median);
  print_counts("by split", stats.by_split);
  print_counts("by style", stats.by_style);
  print_counts("by number of families", stats.by_chain_length);
  print_counts("by family", stats.by_family);
  print_counts("by combination", stats.by_combo, 12);
  if (!stats.by_mistake.empty()) print_counts("by mistake", stats.by_mistake);
}

void write_text(const TextFlags& flags) {
  std::string lines;
  for (int64_t i = 0; i < flags.count; ++i) {
    lines += Json{{"text", dataset::corpus_text(flags.seed, static_cast<uint64_t>(i))}}.dump() + "\n";
  }
  const fs::path output = flags.output;
  make_room_for(output);
  write_file_atomic(output, lines);
  fmt::print("{} texts, {} characters -> {}\n", flags.count, lines.size(), flags.output);
}

}  // namespace

void add_data_command(CLI::App& app) {
  auto* data = app.add_subcommand("data", "makes training data and shows what a data set holds");
  data->require_subcommand(1);
  data->footer("example: tritonforge data stats problems/quickstart/pairs.jsonl");

  add_data_build_command(*data);
  add_data_show_command(*data);
  add_data_capture_command(*data);

  auto* make = data->add_subcommand(
      "generate",
      "makes (PyTorch module, Triton kernel) pairs; each is accepted by the evaluator before it is written");
  auto making = std::make_shared<GenerateFlags>();
  add_flags(*make, *making);
  make->footer(
      "example: tritonforge data generate --output pairs.jsonl --count 2000 --seed 1 --emit-problems problems/");
  make->callback([making] { generate(*making); });

  auto* stats = data->add_subcommand(
      "stats", "the card of what `data build` wrote, or counts of a pairs file by split, family and length");
  auto counting = std::make_shared<StatsFlags>();
  stats->add_option("FILE", counting->pairs, "folder of `data build`, or pairs file")->required();
  add_flags(*stats, *counting);
  stats->footer("example: tritonforge data stats problems/quickstart/pairs.jsonl");
  stats->callback([counting] { print_stats(*counting); });

  auto* problems = data->add_subcommand(
      "problems", "writes the problems of a pairs file for RL (rl/) and for the bench (holdout/)");
  auto emitting = std::make_shared<ProblemsFlags>();
  problems->add_option("FILE", emitting->pairs, "pairs file")->required();
  add_flags(*problems, *emitting);
  problems->footer(
      "example: tritonforge data problems problems/quickstart/pairs.jsonl --output problems/quickstart --holdout 60");
  problems->callback([emitting] {
    const EmitCounts written = emit_problems(emitting->output, emitting->pairs, emitting->most);
    fmt::print("{} held-out problems and {} for RL -> {}\n", written.holdout, written.rl, emitting->output);
  });

  auto* text = data->add_subcommand(
      "text",
      "makes text to pre-train a tiny base model on: kernels of families that no pair teaches, and plain Python");
  auto writing = std::make_shared<TextFlags>();
  add_flags(*text, *writing);
  text->footer("example: tritonforge data text --output corpus.jsonl --count 20000");
  text->callback([writing] { write_text(*writing); });
}

}  // namespace tritonforge::cli
