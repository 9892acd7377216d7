#include "cli/main/torch.h"

#include "cli/commands.h"

namespace tritonforge::cli {
namespace {

void add_commands(CLI::App& app) {
  add_run_command(app);
  add_plan_command(app);
  add_submit_command(app);
  add_bench_command(app);
  add_data_command(app);
  add_evaluate_command(app);
  add_generate_command(app);
  add_score_command(app);
  add_tokenize_command(app);
  add_convert_command(app);
  add_report_command(app);
  add_compare_command(app);
  add_trace_command(app);
  add_track_command(app);
  CLI::App& serve = add_serve_command(app);
  add_serve_engine_command(serve);
  add_serve_trainer_command(serve);
  add_model_command(app);
  add_schema_command(app);
  add_doctor_command(app);
  add_completion_command(app);
  add_manual_command(app);
  add_agent_command(app);
}

}  // namespace
}  // namespace tritonforge::cli

int tritonforge_torch_run(int argc, char** argv) {
  return tritonforge::cli::run(argc, argv, tritonforge::cli::add_commands);
}
