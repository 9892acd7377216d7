#include "cli/data_build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "base/progress.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/own_evaluator.h"
#include "dashboard/run_folder.h"
#include "dataset/build/build.h"
#include "dataset/sources/chat.h"
#include "evaluate/rewriter.h"
#include "net/http.h"
#include "net/key.h"
#include "net/retry.h"
#include "orchestrate/data_page.h"
#include "rollout/extract.h"
#include "rollout/past_trajectories.h"
#include "rollout/peers.h"
#include "rollout/prompts.h"

namespace tritonforge::cli {
namespace {

struct BuildFlags {
  std::string config;
  std::vector<std::string> overrides;
  bool json = false;
  void describe(OptionList& v) {
    v("set", overrides, "KEY=VALUE of the configuration, for instance output=/tmp/x");
    v("json", json, "prints the data card as JSON");
  }
};

struct ShowFlags {
  std::string file;
  int64_t row = 0;
  void describe(OptionList& v) { v("row", row, at_least(0), "which row, from 0"); }
};

// Evaluators in turn; the verdict of one that cannot be reached is the next one's.
class Judges {
 public:
  Judges(const std::vector<std::string>& urls, int64_t trials, double timeout_s, int64_t at_once) : urls_(urls) {
    if (urls_.empty()) urls_.push_back(own_.emplace(static_cast<int>(at_once)).url());
    for (const std::string& url : urls_) {
      net::wait_until_healthy(url + "/health", Deadline::after(30));
      peers_.push_back(
          std::make_unique<rollout::Peers>(rollout::PeerOptions{.evaluator = url,
                                                                .patience_s = urls_.size() > 1 ? 20.0 : 300.0,
                                                                .api_key = net::key_from({}, net::kPeerKeyVariable),
                                                                .awaits_key = false}));
    }
    group_.id = "data build";
    group_.options.evaluate.num_correct_trials = trials;
    group_.options.evaluate.measure_performance = false;
    group_.options.evaluate.fresh_seeds = false;
    group_.options.evaluate.timeout_s = timeout_s;
  }

  Result<Verdict> operator()(const std::string& problem, const std::string& candidate) {
    GroupSpec group = group_;
    group.problem_id = "row";
    group.problem_source = problem;
    const size_t first = next_++;
    Result<Verdict> verdict = Error(ErrorKind::kUnavailable, "there is no evaluator");
    for (size_t i = 0; i < peers_.size() && !verdict.ok(); ++i) {
      const rollout::Peers& peer = *peers_[(first + i) % peers_.size()];
      auto answer = peer.evaluate(group, fmt::format("row-{}", first), candidate, {});
      // A row that one refuses is refused, whether the others are there or not.
      if (answer.ok() || net::is_transient(verdict.error())) verdict = std::move(answer);
    }
    return verdict;
  }

 private:
  std::vector<std::string> urls_;
  std::optional<OwnEvaluator> own_;
  std::vector<std::unique_ptr<rollout::Peers>> peers_;
  GroupSpec group_;
  std::atomic<size_t> next_{0};
};

dataset::StageTools::Ask teacher(const std::string& url, const std::string& model) {
  const char* key = std::getenv("OPENAI_API_KEY");
  rollout::PeerOptions options{.router = url, .awaits_key = false};
  options.chat_api_key = key == nullptr ? "" : key;
  const auto peers = std::make_shared<rollout::Peers>(options);
  GroupSpec group;
  group.id = "teacher";
  group.options.router = url;
  group.options.chat_model = model;
  return [peers, group](const std::vector<tokenizer::Message>& messages) -> Result<std::string> {
    auto reply = peers->chat(group, "thought", messages, /*seed=*/0, {});
    if (!reply.ok()) return reply.error();
    return reply->truncated ? "" : reply->text;
  };
}

// Its Python is started for the first solution that needs it.
class LateRewriter {
 public:
  Result<std::string> operator()(const std::string& solution) {
    std::call_once(started_, [this] { rewriter_.emplace(); });
    return rewriter_->rewrite(solution);
  }

 private:
  std::once_flag started_;
  std::optional<evaluate::Rewriter> rewriter_;
};

dataset::BuildTools tools() {
  dataset::BuildTools tools;
  tools.sources.open_run = rollout::open_past_trajectories;
  tools.stages.first_messages = [](PromptStyle style, const Problem& problem) {
    return rollout::first_messages(style, problem);
  };
  tools.stages.answer_message = [](const std::string& code) { return rollout::answer_message(code); };
  tools.stages.code_of = [](const std::string& answer) { return rollout::extract_code(answer).code; };
  tools.stages.rewrite = [rewriter = std::make_shared<LateRewriter>()](const std::string& solution) {
    return (*rewriter)(solution);
  };
  tools.stages.judge = [](const std::vector<std::string>& urls, int64_t trials, double timeout_s, int64_t at_once) {
    const auto judges = std::make_shared<Judges>(urls, trials, timeout_s, at_once);
    return [judges](const std::string& problem, const std::string& candidate) { return (*judges)(problem, candidate); };
  };
  tools.stages.teacher = teacher;
  return tools;
}

void build(const BuildFlags& flags) {
  YAML::Node config = load_yaml_file(flags.config);
  for (const std::string& override : flags.overrides) apply_override(config, override);
  SignalWaiter signals;
  const YAML::Node given = config.IsMap() ? static_cast<const YAML::Node&>(config)["output"] : YAML::Node();
  const EndsAtSignal ends([output = given.as<std::string>(".")](int number) {
    tell_stopped(number, fmt::format("the same command goes on with the verdicts and thoughts that are kept in {}",
                                     fs::absolute(output).string()));
  });
  dataset::Build build(config, flags.config, tools());
  Progress progress("rows", 0);
  const dataset::Card card = build.run([&](int64_t rows) { progress.advance_to(rows); });
  progress.finish();
  const Json json = to_json(card);
  const fs::path output = config["output"].as<std::string>();
  if (card.splits.empty())
    log::warn("nothing was kept: {}", card.stages[0].in == 0
                                          ? "there is no row in the sources"
                                          : fmt::format("{} rows were read and dropped; {} says why", card.stages[0].in,
                                                        (output / "dropped.jsonl").string()));
  write_file_atomic(output / "card.txt", dataset::card_text(json));
  write_file_atomic(output / "card.json", json.dump(1) + "\n");
  print_card(output, flags.json);
}

bool is_json_lines(const fs::path& file) { return file.extension() == ".jsonl"; }

// Some of each split's, where the conversations were written as JSON lines.
std::vector<dataset::Row> sample_rows(const fs::path& folder) {
  constexpr size_t kOfASplit = 5;
  std::vector<dataset::Row> rows;
  for (const std::string& name : names_in(folder / "jsonl", is_json_lines)) {
    dataset::JsonLines lines({folder / "jsonl" / name});
    for (size_t i = 0; i < kOfASplit; ++i) {
      if (auto line = lines.next()) rows.push_back(dataset::chat_row({}, std::move(*line)));
    }
  }
  return rows;
}

// Unless a build that has ended wrote it: what it is instead, and what of it can be shown.
void require_build(const fs::path& folder) {
  if (fs::exists(folder / "card.json")) return;
  if (dashboard::is_run(folder))
    fail(ErrorKind::kUsage, "{} is a run: `tritonforge report {}` shows it, with its trajectories", folder.string(),
         folder.string());
  const auto files = names_in(folder, is_json_lines);
  fail(ErrorKind::kUsage, "{}: it has no card.json, which `data build` writes at its end{}", folder.string(),
       files.empty() ? "" : fmt::format("; JSON lines in it: {}", fmt::join(files, ", ")));
}

// `given`, or of a build's folder what is trained on.
fs::path conversations_of(const fs::path& given) {
  if (!fs::is_directory(given)) return given;
  require_build(given);
  const auto files = names_in(given / "jsonl", is_json_lines);
  if (files.empty())
    fail(ErrorKind::kNotFound, "{}: its build wrote no conversations ('outputs' without jsonl)", given.string());
  const bool trained = std::find(files.begin(), files.end(), "train.jsonl") != files.end();
  return given / "jsonl" / (trained ? "train.jsonl" : files.front());
}

void show(const ShowFlags& flags) {
  const fs::path file = conversations_of(flags.file);
  dataset::JsonLines lines({file});
  auto line = lines.next();
  for (int64_t i = 0; i < flags.row && line; ++i) line = lines.next();
  if (!line) fail(ErrorKind::kNotFound, "{}: has no row {}", file.string(), flags.row);
  const dataset::Row row = dataset::chat_row({}, std::move(*line));
  fmt::print("{}\n", row.place);
  if (row.dropped) fmt::print("cannot be used: {}\n", row.dropped->reason);
  for (const auto& [message, learned] : row.messages) {
    fmt::print("\n--- {}{}\n", message.role, learned ? " (learned)" : "");
    if (!message.reasoning_content.empty()) fmt::print("<think>\n{}\n</think>\n\n", message.reasoning_content);
    fmt::print("{}\n", message.content);
  }
}

}  // namespace

std::string data_build_page(const fs::path& folder) {
  const fs::path file = folder / "card.json";
  return orchestrate::data_page(parse_json(read_file(file), file.string()), sample_rows(folder));
}

void print_card(const std::string& folder, bool json, const std::string& page) {
  require_build(folder);
  const std::string file = fs::path(folder) / "card.json";
  const Json card = parse_json(read_file(file), file);
  if (!page.empty()) {
    make_room_for(page);
    write_file_atomic(page, data_build_page(folder));
  }
  if (json) fmt::print("{}\n", card.dump());
  else fmt::print("{}", dataset::card_text(card));
}

void add_data_build_command(CLI::App& data) {
  auto* command = data.add_subcommand("build", "makes training data: sources, through stages, to outputs");
  auto flags = std::make_shared<BuildFlags>();
  command->add_option("CONFIG", flags->config, "YAML file (docs/data.md)")->required();
  add_flags(*command, *flags);
  command->footer("example: tritonforge data build recipes/data/own-pairs.yaml --set output=runs/own-pairs");
  command->callback([flags] { build(*flags); });
}

void add_data_show_command(CLI::App& data) {
  auto* command = data.add_subcommand("show", "prints one conversation of a data set, and what of it is learned");
  auto flags = std::make_shared<ShowFlags>();
  command->add_option("FILE", flags->file, "chat JSON lines, or folder of `data build`: its training rows")->required();
  add_flags(*command, *flags);
  command->footer("example: tritonforge data show runs/own-pairs --row 3");
  command->callback([flags] { show(*flags); });
}

}  // namespace tritonforge::cli
