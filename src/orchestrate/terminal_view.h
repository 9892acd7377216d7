#pragma once
// The run on a terminal: finished steps scroll by above; below stay the roles with their state, the progress bar and
// the time left. Without a terminal: plain lines when something changes.
#include <cstdio>
#include <string>
#include <vector>

#include "orchestrate/run_record.h"
#include "orchestrate/supervisor.h"

namespace tritonforge::orchestrate {

class TerminalView {
 public:
  TerminalView();
  void header(const std::string& text);
  void line(const std::string& text);  // scrolls by
  void update(const std::vector<RoleStatus>& roles, const RunRecord::Progress& progress);
  void finish();  // removes the live part

 private:
  void erase_live();
  bool terminal_;
  int live_lines_ = 0;
  std::string last_plain_;
  Clock::time_point last_plain_time_{};
};

// Writes and flushes. That nobody reads any more, because the pipe or the terminal was closed, is no error.
void print_text(std::FILE* stream, const std::string& text);

// One line of the step table, at most 80 columns; steps.jsonl has the other figures.
std::string format_step(const Json& step);
// SFT has many quick steps: some twenty of them are enough.
bool is_shown(const Json& step, int64_t sft_steps);

}  // namespace tritonforge::orchestrate
