// tritonforge data capture
#include "cli/data_capture.h"

#include <fmt/format.h>

#include <memory>

#include "base/process.h"
#include "base/progress.h"
#include "cli/flags.h"
#include "cli/pair_work.h"
#include "dataset/capture.h"
#include "evaluate/capture.h"

namespace tritonforge::cli {
namespace {

struct CaptureFlags {
  std::string problems, output;
  Judging judging;
  PromptStyle prompt = PromptStyle::kKernelBench;
  evaluate::CaptureOptions options;
  int workers = 2;
  bool messages = true, json = false;

  template <typename V>
  void describe(V& v) {
    v("problems", problems, required(), "folder, JSON lines or Parquet of problems, or pairs of `data generate`");
    v("output", output, required(), "JSON lines file to write");
    v("prompt", prompt, "of the conversations");
    v("max_elements", options.budget.elements, at_least(0),
      "a problem's sizes are halved until it has no more (inputs, weights, outputs), as an evaluator on a CPU does; "
      "0 = as they are");
    v("max_flops", options.budget.flops, at_least(0), "the same for operations of one forward; 0 = as they are");
    v("gemm", options.gemm, "products of matrices: calls of the library, or kernels of Inductor's template");
    v("max_bytes", options.max_bytes, at_least(1),
      "longer solutions are refused: unrolled recurrences, whole networks");
    v("timeout_s", options.timeout_s, spelled("timeout"), in(1, 3600), "seconds for one problem");
    v("workers", workers, in(1, 256), "problems at once");
    v("messages", messages, "the conversations, which follow from the rest and take space");
    v.part(judging);
    v("json", json, "prints the result as JSON");
  }
};

void print(const CaptureFlags& flags, const dataset::CaptureReport& report) {
  if (flags.json) {
    fmt::print("{}\n", Json{{"output", flags.output},
                            {"problems", report.problems},
                            {"captured", report.captured},
                            {"written", report.written},
                            {"refused", report.refused},
                            {"refused_by", report.refused_by},
                            {"seconds", report.seconds}}
                           .dump());
    return;
  }
  fmt::print("{} pairs in {} -> {}; of {} problems {} were captured\n", report.written, format_duration(report.seconds),
             flags.output, report.problems, report.captured);
  if (!report.refused_by.empty()) print_counts("refused", report.refused_by);
  for (const auto& reason : report.refused) fmt::print(stderr, "refused: {}\n", reason);
}

void capture(const CaptureFlags& flags) {
  auto modules = dataset::read_modules(flags.problems);
  SignalWaiter signals;
  PairFile file(flags.output);
  const EndsAtSignal ends([&file](int number) { file.tell_stopped(number); });
  PairEvaluator evaluator(flags.judging, flags.workers);
  evaluate::Capturer capturer(flags.options);
  const auto solve = [&](const std::string& problem) -> Result<dataset::Capture> {
    auto captured = capturer.capture(problem);
    if (!captured.ok()) return captured.error();
    return dataset::Capture{captured->problem, captured->solution};
  };
  file.open();
  Progress progress("problems", static_cast<int64_t>(modules.size()));
  int64_t done = 0;
  const auto report = dataset::capture_pairs(std::move(modules), flags.workers, solve, evaluator.ask(),
                                             conversation_texts(flags.prompt), [&](const dataset::Pair* pair) {
                                               if (pair) file.write(*pair, flags.messages);
                                               progress.advance_to(++done);
                                             });
  file.finish();
  progress.finish();
  print(flags, report);
}

}  // namespace

void add_data_capture_command(CLI::App& data) {
  auto* command = data.add_subcommand(
      "capture",
      "makes pairs of PyTorch modules: the Triton code that torch.compile generates, accepted by the evaluator");
  auto flags = std::make_shared<CaptureFlags>();
  add_flags(*command, *flags);
  command->footer("example: tritonforge data capture --problems KernelBench/KernelBench --output pairs.jsonl");
  command->callback([flags] { capture(*flags); });
}

}  // namespace tritonforge::cli
