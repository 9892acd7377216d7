#pragma once
// The run on a terminal: finished steps scroll by above; below stay the table of what was measured, the roles with
// their state, the progress bar and the time left, as far as the window has room, whatever size it takes. Without a
// terminal: plain lines when something changes.
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrate/run_record.h"
#include "orchestrate/supervisor.h"

namespace tritonforge::orchestrate {

struct WindowSize {
  size_t columns = 100, rows = 24;
  friend bool operator==(const WindowSize&, const WindowSize&) = default;
};

class TerminalView {
 public:
  // What stays as it is for so long is said again without a terminal, and on both why a role is not green.
  explicit TerminalView(double lasting_s = 10);
  void line(const std::string& text);  // scrolls by
  void update(const std::vector<RoleStatus>& roles, const RunRecord::Progress& progress,
              const std::vector<BenchRow>& rows = {});
  bool keeps_table() const { return terminal_; }  // the rows stay in view; else somebody has to print them
  void finish();                                  // removes the live part

 private:
  void draw(const std::string& above, std::vector<std::string> live);
  bool terminal_;
  double lasting_s_;
  WindowSize size_;                // when it was drawn last
  bool screen_is_ours_ = false;    // nothing is on it that others wrote
  std::deque<std::string> above_;  // lines that scrolled by, the newest
  std::vector<std::string> live_;  // as printed
  std::string last_state_;         // the stage, and the roles that are not green
  Clock::time_point last_time_{};  // since when; without a terminal, when it was said
};

// What stays below: at most `height` lines of at most `width` columns. Where there is no room the table goes first,
// then the reasons for which roles are not green, then roles; the progress bar never.
std::vector<std::string> live_lines(const std::vector<RoleStatus>& roles, const RunRecord::Progress& progress,
                                    const std::vector<BenchRow>& rows, size_t width, size_t height,
                                    const std::vector<std::string>& reasons = {});
// What draws the whole screen anew: the newest lines that scrolled by, as many as there is room for, and the live part
// below them. What stood there is overwritten row by row, since clearing a screen makes some terminals keep it.
std::string redrawn(const std::deque<std::string>& above, const std::vector<std::string>& live, WindowSize size);
// Columns that a text takes: its code points without escape sequences.
size_t columns_of(std::string_view text);
// Rows that printed lines take in a window of `width` columns: a window made narrower wraps them.
size_t rows_taken(const std::vector<std::string>& lines, size_t width);

// Writes and flushes. That nobody reads any more, because the pipe or the terminal was closed, is no error.
void print_text(std::FILE* stream, const std::string& text);

// One line of the step table, at most 80 columns; steps.jsonl has the other figures.
std::string format_step(const Json& step);
// SFT has many quick steps: some twenty of them are enough.
bool is_shown(const Json& step, int64_t sft_steps);

}  // namespace tritonforge::orchestrate
