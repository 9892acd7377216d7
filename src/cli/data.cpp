// tritonforge data generate | problems | stats | text
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <memory>

#include "base/process.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "dataset/corpus.h"
#include "dataset/generate.h"
#include "net/http.h"
#include "net/retry.h"
#include "rollout/prompts.h"

namespace tritonforge::cli {
namespace {

// How many problems of each part go to its folder; 0: all.
struct EmitCounts {
  int holdout = 0, rl = 0;
};

struct GenerateArguments {
  dataset::GenerateOptions options;
  std::string output, style = "compact", prompt, evaluator, emit_problems;
  int trials = 2;
  EmitCounts emit_most;
  bool unverified = false, json = false, no_messages = false;
};

void make_folder(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::kUnavailable, "{}: cannot be made: {}", folder.string(), error.message());
}

// An evaluator of our own for as long as the generation takes.
class OwnEvaluator {
 public:
  explicit OwnEvaluator(int workers) : port_(free_port()), folder_("tritonforge-data") {
    ProcessOptions options;
    options.argv = {own_executable().string(), "serve",  "evaluator", "--port",
                    std::to_string(port_),     "--mode", "interpret", "--workers",
                    std::to_string(workers)};
    options.stdout_file = options.stderr_file = folder_.path() / "evaluator.log";
    process_.emplace(options);
    try {
      net::wait_until_healthy(url() + "/health", Deadline::after(120));
    } catch (const Error& error) {
      const std::string log = read_file(options.stderr_file);
      fail(error.kind(), "the evaluator did not start: {}; its last words: {}", error.what(),
           log.substr(log.size() - std::min<size_t>(log.size(), 300)));
    }
  }
  ~OwnEvaluator() { process_->stop(5); }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  int port_;
  TemporaryFolder folder_;
  std::optional<ChildProcess> process_;
};

// A busy evaluator (429, 503 with Retry-After) is asked again; anything else that is no verdict ends the generation.
Result<Verdict> evaluate_over_http(net::HttpClient& client, const std::string& url, int trials,
                                   const std::string& problem, const std::string& candidate) {
  const Json body{{"problem", {{"id", "generated"}, {"source", problem}}},
                  {"candidate", candidate},
                  {"num_correct_trials", trials},
                  {"measure_performance", false},
                  {"backend", "triton"},
                  {"timeout_s", 60}};
  const auto ask = [&]() -> Result<Verdict> {
    const auto reply = client.post_json(url + "/v2/evaluations", body);
    if (!reply.ok()) return reply.error();
    try {
      return verdict_from_json(*reply);
    } catch (const Error& error) {
      return error;
    }
  };
  const auto is_busy = [](const Error& error) { return error.retry_after_s() > 0; };
  return net::retry<Verdict>(url + " to have a free worker", Deadline::after(300), ask, {.again = is_busy});
}

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

// holdout/: the held-out problems; rl/: the others, combinations for RL only first.
void emit_problems(const fs::path& folder, const fs::path& pairs_file, const EmitCounts& most) {
  auto pairs = dataset::read_pairs(pairs_file);
  std::stable_partition(pairs.begin(), pairs.end(), [](const dataset::Pair& pair) { return pair.split == "rl"; });
  std::map<std::string, std::pair<int, std::string>> sets{{"holdout", {}}, {"rl", {}}};
  for (const auto& pair : pairs) {
    const bool held_out = pair.split == "holdout";
    auto& [count, lines] = sets[held_out ? "holdout" : "rl"];
    const int limit = held_out ? most.holdout : most.rl;
    if (limit == 0 || count < limit) lines += dataset::problem_line(dataset::problem_of(pair, ++count)) + "\n";
  }
  for (const auto& [name, set] : sets) {
    make_folder(folder / name);
    write_file_atomic(folder / name / "problems.jsonl", set.second);
  }
}

void generate(GenerateArguments& arguments, std::vector<std::string> holdout) {
  auto& options = arguments.options;
  options.style = dataset::parse_pair_style(arguments.style);
  options.holdout = read_holdout(holdout);
  options.validate();
  const bool compact = options.style == dataset::PairStyle::kCompact;
  const auto prompt = arguments.prompt.empty() ? (compact ? PromptStyle::kMinimal : PromptStyle::kKernelBench)
                                               : from_name<PromptStyle>(arguments.prompt, "prompt style");
  const dataset::ConversationTexts texts{
      .first = [=](const Problem& problem) { return rollout::first_messages(prompt, problem); },
      .feedback = [=](const Verdict& verdict) { return rollout::feedback_message(prompt, verdict); },
      .answer = [](const std::string& code) { return rollout::answer_message(code); }};

  std::unique_ptr<OwnEvaluator> own;
  net::HttpClient client({.timeout_s = 120});
  dataset::EvaluatePair evaluate;
  if (!arguments.unverified) {
    std::string url = arguments.evaluator;
    if (url.empty()) {
      own = std::make_unique<OwnEvaluator>(options.workers);
      url = own->url();
    } else {
      net::wait_until_healthy(url + "/health", Deadline::after(30));
    }
    evaluate = [&client, url, trials = arguments.trials](const std::string& problem, const std::string& candidate) {
      return evaluate_over_http(client, url, trials, problem, candidate);
    };
  }

  const fs::path output = arguments.output;
  make_folder(output.parent_path());
  fs::path unfinished = output;
  unfinished += ".part";
  std::ofstream file(unfinished, std::ios::trunc);
  if (!file) fail(ErrorKind::kUnavailable, "{}: cannot be written", unfinished.string());
  Progress progress("pairs", options.count);
  int64_t written = 0;
  const auto report = dataset::generate_pairs(options, evaluate, texts, [&](const dataset::Pair& pair) {
    Json line = to_json(pair);
    if (arguments.no_messages) line.erase("messages");
    file << line.dump() << '\n';
    if (!file) fail(ErrorKind::kUnavailable, "{}: cannot be written (disk full?)", unfinished.string());
    progress.advance_to(++written);
  });
  file.close();
  if (!file) fail(ErrorKind::kUnavailable, "{}: cannot be written (disk full?)", unfinished.string());
  fsync_path(unfinished);
  fs::rename(unfinished, output);
  progress.finish();
  if (!arguments.emit_problems.empty()) emit_problems(arguments.emit_problems, output, arguments.emit_most);

  if (arguments.json) {
    fmt::print("{}\n", Json{{"output", output.string()},
                            {"written", report.written},
                            {"refinements", report.refinements},
                            {"evaluations", report.evaluations},
                            {"rejected", report.rejected},
                            {"seconds", report.seconds}}
                           .dump());
    return;
  }
  fmt::print("{} pairs ({} with a refinement) in {} -> {}; {} evaluations, {} solutions refused\n", report.written,
             report.refinements, format_duration(report.seconds), output.string(), report.evaluations,
             report.rejected.size());
  for (const auto& reason : report.rejected) fmt::print(stderr, "refused: {}\n", reason);
}

void print_counts(std::string_view title, const std::map<std::string, size_t>& counts, size_t most = SIZE_MAX) {
  std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  fmt::print("{}\n", title);
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i)
    fmt::print("  {:6}  {}\n", sorted[i].second, sorted[i].first);
  if (sorted.size() > most) fmt::print("  {:>6}  more\n", sorted.size() - most);
}

void print_stats(const std::string& path, bool json) {
  const auto stats = dataset::stats_of(dataset::read_pairs(path));
  if (json) {
    fmt::print("{}\n", to_json(stats).dump());
    return;
  }
  fmt::print(
      "{} pairs, {} verified, {} with a refinement, {} distinct combinations, {} duplicates, {} leaked into train\n",
      stats.pairs, stats.verified, stats.refinements, stats.by_combo.size(), stats.duplicates, stats.leaked);
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

void write_text(const std::string& path, int64_t count, uint64_t seed) {
  std::string lines;
  for (int64_t i = 0; i < count; ++i) {
    lines += Json{{"text", dataset::corpus_text(seed, static_cast<uint64_t>(i))}}.dump() + "\n";
  }
  const fs::path output = path;
  make_folder(output.parent_path());
  write_file_atomic(output, lines);
  fmt::print("{} texts, {} characters -> {}\n", count, lines.size(), path);
}

}  // namespace

void add_data_command(CLI::App& app) {
  auto* data = app.add_subcommand("data", "makes training data and shows what a data set holds");
  data->require_subcommand(1);

  auto* make = data->add_subcommand(
      "generate",
      "makes (PyTorch module, Triton kernel) pairs; each is accepted by the evaluator before it is written");
  auto arguments = std::make_shared<GenerateArguments>();
  auto holdout = std::make_shared<std::vector<std::string>>();
  auto& options = arguments->options;
  make->add_option("--output", arguments->output, "JSON lines file to write")->required();
  make->add_option("--count", options.count, "pairs to write")->capture_default_str();
  make->add_option("--seed", options.seed, "seed of the draws")->capture_default_str();
  make->add_option("--style", arguments->style, "compact (for tiny models) | full")->capture_default_str();
  make->add_option("--families", options.families, "only these operator families")->delimiter(',');
  make->add_option("--holdout", *holdout,
                   "families, combinations (relu+mul), or an earlier set whose holdout to keep out")
      ->delimiter(',');
  make->add_option("--split", options.holdout_fraction, "fraction of combinations held out, by hash")
      ->capture_default_str();
  make->add_option("--rl-split", options.rl_fraction, "fraction of combinations for RL only, by hash")
      ->capture_default_str();
  make->add_option("--refinements", options.refinements,
                   "fraction of pairs with a wrong first attempt and its real feedback")
      ->capture_default_str();
  make->add_option("--prompt", arguments->prompt,
                   "minimal | kernelbench (default: minimal for compact, kernelbench for full)");
  make->add_option("--evaluator", arguments->evaluator, "URL of a running evaluator (default: starts its own)");
  make->add_option("--trials", arguments->trials, "correctness trials of each evaluation")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  make->add_option("--workers", options.workers, "evaluations at once")->capture_default_str();
  make->add_option("--emit-problems", arguments->emit_problems,
                   "folder for holdout/ (held-out problems) and rl/ (the others)");
  make->add_option("--emit-holdout", arguments->emit_most.holdout, "at most so many problems in holdout/ (0: all)")
      ->capture_default_str();
  make->add_option("--emit-rl", arguments->emit_most.rl, "at most so many problems in rl/ (0: all)")
      ->capture_default_str();
  make->add_flag("--no-messages", arguments->no_messages,
                 "leaves out the conversations, which follow from the rest (smaller files)");
  make->add_flag("--unverified", arguments->unverified,
                 "writes without asking an evaluator (for work on templates; marked so)");
  make->add_flag("--json", arguments->json, "prints the result as JSON");
  make->footer(
      "example: tritonforge data generate --output pairs.jsonl --count 2000 --seed 1 --emit-problems problems/");
  make->callback([arguments, holdout] { generate(*arguments, *holdout); });

  auto* stats = data->add_subcommand("stats", "counts of a pairs file by split, family, combination and length");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  stats->add_option("FILE", *path, "pairs file")->required();
  stats->add_flag("--json", *json, "prints the counts as JSON");
  stats->footer("example: tritonforge data stats problems/quickstart/pairs.jsonl");
  stats->callback([path, json] { print_stats(*path, *json); });

  auto* problems = data->add_subcommand(
      "problems", "writes the problems of a pairs file for RL (rl/) and for the bench (holdout/)");
  auto pairs_path = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  auto counts = std::make_shared<EmitCounts>();
  problems->add_option("FILE", *pairs_path, "pairs file")->required();
  problems->add_option("--output", *folder, "folder to write to")->required();
  problems->add_option("--holdout", counts->holdout, "at most so many held-out problems (0: all)")
      ->capture_default_str();
  problems->add_option("--rl", counts->rl, "at most so many problems for RL (0: all)")->capture_default_str();
  problems->footer(
      "example: tritonforge data problems problems/quickstart/pairs.jsonl --output problems/quickstart --holdout 60");
  problems->callback([=] { emit_problems(*folder, *pairs_path, *counts); });

  auto* text = data->add_subcommand(
      "text",
      "makes text to pre-train a tiny base model on: kernels of families that no pair teaches, and plain Python");
  auto text_path = std::make_shared<std::string>();
  auto count = std::make_shared<int64_t>(10000);
  auto seed = std::make_shared<uint64_t>(0);
  text->add_option("--output", *text_path, "JSON lines file to write")->required();
  text->add_option("--count", *count, "texts to write")->capture_default_str()->check(CLI::PositiveNumber);
  text->add_option("--seed", *seed, "seed of the draws")->capture_default_str();
  text->footer("example: tritonforge data text --output corpus.jsonl --count 20000");
  text->callback([text_path, count, seed] { write_text(*text_path, *count, *seed); });
}

}  // namespace tritonforge::cli
