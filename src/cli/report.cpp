#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "dashboard/page.h"

namespace tritonforge::cli {

void add_report_command(CLI::App& app) {
  struct Arguments {
    fs::path run, output;
    size_t trajectories = 100;
    void describe(OptionList& v) {
      v("output", output, "file to write (RUN/report.html by default)");
      v("trajectories", trajectories, in(0, 200), "how many of the last trajectories it holds");
    }
  };
  auto* command = app.add_subcommand("report", "writes a run's page as one self-contained HTML file");
  auto given = std::make_shared<Arguments>();
  command->add_option("run", given->run, "the run's folder")->required();
  add_flags(*command, *given);
  command->footer("example: tritonforge report runs/quickstart --output report.html");
  command->callback([given] {
    const fs::path output = given->output.empty() ? given->run / "report.html" : given->output;
    write_file_atomic(output, dashboard::report_html(given->run, given->trajectories));
    fmt::print("{}\n", output.string());
  });
}

}  // namespace tritonforge::cli
