#pragma once
// The command line: one add_*_command per subcommand, each in its own file, listed in main/.
#include <CLI/CLI.hpp>

namespace tritonforge::cli {

using AddCommands = void (*)(CLI::App& app);

// Parses and runs. Exit codes: 0, 1 (the work failed), 2 (wrong use), 3 (the machine lacks something),
// 128 + a signal's number where it stopped a run.
int run(int argc, char** argv, AddCommands add_commands);

// Whether the first words are the name of one of these commands, or all that is asked for is --version.
bool names_command(int argc, char** argv, AddCommands add_commands);

// Adds the subcommand; its callback does the work and throws Error where it fails.
void add_agent_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_completion_command(CLI::App& app);
void add_convert_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_manual_command(CLI::App& app);
void add_model_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_schema_command(CLI::App& app);
void add_score_command(CLI::App& app);
void add_submit_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_track_command(CLI::App& app);

// `serve`, and under it one role a file; returned without the engine and the trainer.
CLI::App& add_serve_command(CLI::App& app);
void add_serve_buffer_command(CLI::App& serve);
void add_serve_generator_command(CLI::App& serve);
void add_serve_dashboard_command(CLI::App& serve);
void add_serve_engine_command(CLI::App& serve);
void add_serve_evaluator_command(CLI::App& serve);
void add_serve_router_command(CLI::App& serve);
void add_serve_trainer_command(CLI::App& serve);

}  // namespace tritonforge::cli
