#include "parallel/recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace tritonforge::parallel {
namespace {
constexpr size_t kKept = 64;  // that have ended
}

uint64_t FlightRecorder::begin(std::string_view group, std::string_view operation, std::string_view what, int64_t bytes,
                               Done done) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = next_++;
  entries_.push_back({number,
                      fmt::format("{}, {} {} '{}' of {}, {} bytes", place_, operation, number, what, group, bytes),
                      Clock::now(), std::move(done)});
  if (entries_.size() > 2 * kKept) {
    settle();
    while (entries_.size() > kKept && entries_.front().ended) entries_.pop_front();
  }
  return number;
}

void FlightRecorder::end(uint64_t number) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.number == number) entry.end();
  }
}

void FlightRecorder::at(std::string place) {
  const std::lock_guard lock(mutex_);
  place_ = std::move(place);
}

void FlightRecorder::settle() {
  for (Entry& entry : entries_) {
    if (!entry.ended && entry.done && entry.done()) entry.end();
  }
}

std::string FlightRecorder::line(const Entry& entry) {
  return entry.ended ? entry.text + ", ended"
                     : fmt::format("{}, since {:.1f} s", entry.text, seconds_since(entry.begun));
}

std::string FlightRecorder::standing() {
  const std::lock_guard lock(mutex_);
  settle();
  const auto pending = std::ranges::find_if(entries_, [](const Entry& entry) { return !entry.ended; });
  if (pending != entries_.end()) return line(*pending);
  return entries_.empty() ? place_ : fmt::format("{}, after {}", place_, line(entries_.back()));
}

double FlightRecorder::waits_s() {
  const std::lock_guard lock(mutex_);
  settle();
  const auto pending = std::ranges::find_if(entries_, [](const Entry& entry) { return !entry.ended; });
  return pending == entries_.end() ? 0 : seconds_since(pending->begun);
}

std::vector<std::string> FlightRecorder::lines() {
  const std::lock_guard lock(mutex_);
  settle();
  std::vector<std::string> lines;
  for (const Entry& entry : entries_) lines.push_back(line(entry));
  return lines;
}

}  // namespace tritonforge::parallel
