#include <fmt/format.h>

#include <memory>

#include "base/url.h"
#include "cli/commands.h"
#include "cli/data_build.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "dashboard/compare.h"
#include "dashboard/page.h"
#include "dashboard/trace.h"

namespace tritonforge::cli {
namespace {

// What a bench wrote beside its figures (orchestrate/bench_results.h): of `folder` itself, or of a run that did
// nothing but measure one model.
fs::path bench_page(const fs::path& folder) {
  if (fs::exists(folder / "figures.json") && fs::exists(folder / "report.html")) return folder / "report.html";
  if (fs::exists(folder / "steps.jsonl")) return {};
  const auto benches = names_in(folder, [](const fs::path& entry) {
    return entry.filename().string().starts_with("bench-") && fs::exists(entry / "report.html");
  });
  return benches.size() == 1 ? folder / benches.front() / "report.html" : fs::path();
}

std::string report_of(const fs::path& folder, size_t trajectories) {
  if (const fs::path page = bench_page(folder); !page.empty()) return read_file(page);
  if (fs::exists(folder / "card.json")) return data_build_page(folder);
  dashboard::require_run(folder, ", nor what a bench (figures.json) or a data build (card.json) writes");
  return dashboard::report_html(folder, trajectories);
}

std::unique_ptr<dashboard::RunFolder> read_run(const fs::path& folder) {
  dashboard::require_run(folder);
  auto run = std::make_unique<dashboard::RunFolder>(folder);
  while (run->poll().more) {}
  return run;
}

void compare(const std::vector<fs::path>& folders, bool json) {
  std::vector<std::unique_ptr<dashboard::RunFolder>> opened;
  std::vector<const dashboard::RunFolder*> runs;
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    opened.push_back(read_run(folder));
    runs.push_back(opened.back().get());
    names.push_back((folder / "").parent_path().filename().string());
  }
  const Json comparison = dashboard::compare_runs(runs, names);
  fmt::print("{}", json ? comparison.dump(1) + "\n" : dashboard::comparison_text(comparison));
}

struct TraceFlags {
  fs::path run, output;
  std::string otlp;
  size_t trajectories = 2000;
  double timeout_s = 10;
  void describe(OptionList& v) {
    v("output", output, "file to write (RUN/trace.json by default)");
    v("trajectories", trajectories, "how many of the last trajectories it holds");
    v("otlp", otlp, in_form(base_url),
      "in place of a file: base URL of an OpenTelemetry collector (http://127.0.0.1:4318)");
    v("timeout_s", timeout_s, above(0), spelled("timeout"), "seconds that the collector may take for a request");
  }
};

void trace(const TraceFlags& flags) {
  const auto run = read_run(flags.run);
  const fs::path file = flags.output.empty() ? flags.run / "trace.json" : flags.output;
  if (flags.otlp.empty()) make_room_for(file);
  const auto counts = flags.otlp.empty() ? dashboard::write_perfetto(*run, flags.trajectories, file)
                                         : dashboard::send_otlp(*run, flags.trajectories, flags.otlp, flags.timeout_s);
  fmt::print("{}: {} steps, {} trajectories, {} requests{}\n", flags.otlp.empty() ? file.string() : flags.otlp,
             counts.steps, counts.trajectories, counts.requests,
             counts.without_times > 0
                 ? fmt::format("; {} trajectories have no times and are left out", counts.without_times)
                 : "");
}

}  // namespace

void add_report_command(CLI::App& app) {
  struct Arguments {
    fs::path folder, output;
    size_t trajectories = 100;
    void describe(OptionList& v) {
      v("output", output, "file to write (FOLDER/report.html by default)");
      v("trajectories", trajectories, in(0, 200), "how many of the last trajectories a run's page holds");
    }
  };
  auto* command = app.add_subcommand("report",
                                     "writes a run, a bench's results or a data build as one self-contained HTML file");
  auto given = std::make_shared<Arguments>();
  command->add_option("folder", given->folder, "the folder of a run, of a bench's results or of a data build")
      ->required();
  add_flags(*command, *given);
  command->footer(
      "examples: tritonforge report runs/quickstart-seed1 --output report.html\n"
      "          tritonforge report runs/quickstart-seed1/bench-rl --output bench.html");
  command->callback([given] {
    const std::string page = report_of(given->folder, given->trajectories);
    const fs::path output = given->output.empty() ? given->folder / "report.html" : given->output;
    make_room_for(output);
    write_file_atomic(output, page);
    fmt::print("{}\n", output.string());
  });
}

void add_compare_command(CLI::App& app) {
  struct Arguments {
    std::vector<fs::path> runs;
    bool json = false;
    void describe(OptionList& v) { v("json", json, "as JSON, with every figure"); }
  };
  auto* command = app.add_subcommand("compare",
                                     "prints what differs in runs' recipes, their results and figures at equal steps");
  auto given = std::make_shared<Arguments>();
  command->add_option("runs", given->runs, "the runs' folders")->required()->expected(2, 8);
  add_flags(*command, *given);
  command->footer("example: tritonforge compare runs/quickstart-seed1 runs/quickstart-seed2");
  command->callback([given] { compare(given->runs, given->json); });
}

void add_trace_command(CLI::App& app) {
  auto* command = app.add_subcommand("trace",
                                     "writes what a run did and when, for Perfetto, or sends it to a collector");
  auto flags = std::make_shared<TraceFlags>();
  command->add_option("run", flags->run, "the run's folder")->required();
  add_flags(*command, *flags);
  command->footer(
      "Open the file at ui.perfetto.dev or chrome://tracing.\n"
      "examples: tritonforge trace runs/quickstart-seed1\n"
      "          tritonforge trace runs/quickstart-seed1 --otlp http://127.0.0.1:4318");
  command->callback([flags] { trace(*flags); });
}

}  // namespace tritonforge::cli
