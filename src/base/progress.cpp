#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace tritonforge {

std::string format_duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string format_time(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm local{};
  ::localtime_r(&whole, &local);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local));
}

Progress::Progress(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), terminal_(::isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (!finished_) finish();
}

void Progress::advance_to(int64_t done, const std::string& note) {
  done_ = done;
  if (seconds_since(shown_) >= (terminal_ ? 0.1 : 10.0)) show(note, /*last=*/false);
}

void Progress::finish(const std::string& note) {
  finished_ = true;
  show(note, /*last=*/true);
}

void Progress::show(const std::string& note, bool last) {
  shown_ = Clock::now();
  const double elapsed = seconds_since(start_);
  std::string text = fmt::format("{:<12}", label_);
  if (total_ > 0) {
    text += " " + progress_bar(done_, total_, 24);
    const double part = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    if (!last && part > 0) text += fmt::format("  {} left", format_duration(elapsed / part - elapsed));
  } else {
    text += fmt::format(" {}", done_);
  }
  text += fmt::format("  {}", format_duration(elapsed));
  if (!note.empty()) text += "  " + note;
  if (terminal_) fmt::print(stderr, "\r\x1b[K{}{}", text, last ? "\n" : "");
  else fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

std::string progress_bar(int64_t done, int64_t total, int width) {
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int filled = static_cast<int>(part * width);
  return fmt::format("[{}{}] {}/{}", std::string(filled, '#'), std::string(width - filled, '.'), done, total);
}

}  // namespace tritonforge
