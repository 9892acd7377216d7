#include "orchestrate/terminal_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "base/progress.h"
#include "base/text.h"

namespace tritonforge::orchestrate {
namespace {

const char* colour(RoleState state) {
  switch (state) {
    case RoleState::kGreen: return "\x1b[32m";
    case RoleState::kYellow: return "\x1b[33m";
    case RoleState::kRed: return "\x1b[31m";
  }
  return "";
}

// More than a window has rows.
constexpr size_t kKept = 1000;

WindowSize terminal_size() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

// The first `columns` columns of a text, its escape sequences whole.
std::string clipped(std::string_view text, size_t columns) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at++;
    if (text[start] == '\x1b') {
      while (at < text.size() && text[at - 1] != 'm') ++at;
    } else {
      while (at < text.size() && continues_character(text[at])) ++at;
      if (columns == 0) continue;
      --columns;
    }
    out += text.substr(start, at - start);
  }
  return out;
}

std::string time_left(const RunRecord::Progress& progress) {
  std::string text = format_duration(progress.eta_s) + " left";
  if (progress.run_eta_is_least) text += ", in all more than " + format_duration(progress.run_eta_s);
  else if (progress.run_eta_s > progress.eta_s) text += ", in all " + format_duration(progress.run_eta_s);
  return text;
}

std::string progress_text(const RunRecord::Progress& progress) {
  std::string text = fmt::format("{:<10}", progress.stage);
  if (progress.total > 0) {
    text += " " + progress_bar(progress.done, progress.total, 20);
    if (!progress.note.empty()) text += "  " + progress.note;
    if (progress.eta_s > 0) text += "  " + time_left(progress);
  }
  return text;
}

// Why a role is not green, where it says so.
std::vector<std::string> reasons_of(const std::vector<RoleStatus>& roles) {
  std::vector<std::string> lines;
  for (const auto& role : roles) {
    if (role.state != RoleState::kGreen && !role.detail.empty()) lines.push_back(role.name + ": " + role.detail);
  }
  return lines;
}

double number(const Json& step, const char* key) { return step.value(key, 0.0); }

}  // namespace

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') at = std::min(text.find('m', at), text.size());
    else columns += continues_character(text[at]) ? 0 : 1;
  }
  return columns;
}

size_t rows_taken(const std::vector<std::string>& lines, size_t width) {
  size_t rows = 0;
  for (const std::string& line : lines) rows += std::max<size_t>(1, (columns_of(line) + width - 1) / width);
  return rows;
}

std::vector<std::string> live_lines(const std::vector<RoleStatus>& roles, const RunRecord::Progress& progress,
                                    const std::vector<BenchRow>& rows, size_t width, size_t height,
                                    const std::vector<std::string>& reasons) {
  std::vector<std::string> states{""};
  for (const auto& role : roles) {
    const std::string label = role.name + (role.restarts ? fmt::format(" (restarted {}x)", role.restarts) : "");
    const std::string text = fmt::format("{}●\x1b[0m {}  ", colour(role.state), label);
    if (columns_of(states.back()) > 0 && columns_of(states.back() + text) > width) states.emplace_back();
    states.back() += text;
  }
  std::vector<std::string> table;
  std::istringstream text(format_table(rows));
  for (std::string line; std::getline(text, line) && table.size() <= rows.size();) table.push_back(line);
  // One line for the progress, then as many as there is room for.
  std::vector<std::string> lines;
  const size_t room = std::max<size_t>(height, 1) - 1;
  if (states.size() > room) states.resize(room);
  if (states.size() + reasons.size() <= room) states.insert(states.end(), reasons.begin(), reasons.end());
  if (states.size() + table.size() <= room) lines = table;
  lines.insert(lines.end(), states.begin(), states.end());
  lines.push_back(progress_text(progress));
  for (std::string& line : lines) line = clipped(line, width);
  return lines;
}

void print_text(std::FILE* stream, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
  std::clearerr(stream);
}

std::string redrawn(const std::deque<std::string>& above, const std::vector<std::string>& live, WindowSize size) {
  const size_t taken = rows_taken(live, size.columns) + 1;  // the cursor's row
  size_t room = size.rows - std::min(size.rows, taken), first = above.size();
  while (first > 0) {
    const size_t rows = rows_taken({above[first - 1]}, size.columns);
    if (rows > room) break;
    room -= rows;
    --first;
  }
  std::string text;
  for (size_t row = 1; row <= size.rows; ++row) text += fmt::format("\x1b[{}H\x1b[2K", row);
  text += "\x1b[H";
  for (size_t line = first; line < above.size(); ++line) text += above[line] + "\n";
  for (const std::string& line : live) text += line + "\n";
  return text;
}

TerminalView::TerminalView(double lasting_s)
    : terminal_(::isatty(STDERR_FILENO)), lasting_s_(lasting_s), size_(terminal_size()) {}

// A window of another size has wrapped, moved or cut what was drawn, and some (tmux) tell of it only a moment after
// they have: where the live part stands is known again when all is drawn anew.
void TerminalView::draw(const std::string& above, std::vector<std::string> live) {
  std::string text;
  if (const WindowSize size = terminal_size(); std::exchange(size_, size) != size) {
    // What others wrote before scrolls out.
    if (!std::exchange(screen_is_ours_, true))
      text = fmt::format("\x1b[{}H{}", size.rows, std::string(size.rows, '\n'));
    text += redrawn(above_, live, size);
  } else {
    // The return: a Ctrl-C typed shows as ^C and moves the cursor.
    if (const size_t rows = rows_taken(live_, size.columns); rows > 0) text = fmt::format("\r\x1b[{}A\x1b[J", rows);
    text += above;
    for (const std::string& line : live) text += line + "\n";
  }
  print_text(stderr, text);
  live_ = std::move(live);
}

void TerminalView::line(const std::string& text) {
  if (!terminal_) return print_text(stderr, text + "\n");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) above_.push_back(line);
  while (above_.size() > kKept) above_.pop_front();
  const bool resized = terminal_size() != size_;  // then what stays below waits for the next update and its new width
  draw(text + "\n", resized ? std::vector<std::string>{} : live_);
}

void TerminalView::update(const std::vector<RoleStatus>& roles, const RunRecord::Progress& progress,
                          const std::vector<BenchRow>& rows) {
  std::string states;
  for (const auto& role : roles) {
    if (role.state != RoleState::kGreen) states += fmt::format(" {}={}", role.name, name_of(role.state));
  }
  const bool same = std::exchange(last_state_, progress.stage + states) == last_state_;
  if (!same) last_time_ = Clock::now();
  const bool lasts = same && seconds_since(last_time_) >= lasting_s_;
  const std::vector<std::string> reasons = lasts ? reasons_of(roles) : std::vector<std::string>{};
  if (terminal_) {
    const WindowSize size = terminal_size();
    return draw("", live_lines(roles, progress, rows, size.columns - 1, size.rows - 1, reasons));
  }
  if ((same && !lasts) || progress.stage.empty()) return;
  line(progress_text(progress) + states);
  for (const std::string& reason : reasons) line("  " + reason);
  last_time_ = Clock::now();
}

void TerminalView::finish() {
  if (terminal_) draw("", {});
}

std::string format_step(const Json& step) {
  const int64_t index = step.value("step", int64_t{0});
  if (step.value("stage", "") == "sft") {
    return fmt::format("sft {:>4}  loss {:7.4f}  lr {:.2e}  grad {:6.3f}  {:>6.0f} tok/s", index, number(step, "loss"),
                       number(step, "lr"), number(step, "grad_norm"), number(step, "tokens_per_s"));
  }
  return fmt::format("rl {:>4}  reward {:6.3f}  pass {:5.1f}%  compiles {:5.1f}%  |dlogp| {:.1e}  {:5.1f} s", index,
                     number(step, "reward_mean"), 100 * number(step, "pass_rate"), 100 * number(step, "compile_rate"),
                     number(step, "train_rollout_logprob_abs_diff"), number(step, "seconds"));
}

bool is_shown(const Json& step, int64_t sft_steps) {
  constexpr int64_t kLines = 20;
  const int64_t number = step.value("step", int64_t{0});
  if (step.value("stage", "") != "sft" || number == 1 || number == sft_steps) return true;
  return number % std::max<int64_t>(1, sft_steps / kLines) == 0;
}

}  // namespace tritonforge::orchestrate
