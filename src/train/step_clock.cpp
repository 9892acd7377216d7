#include "train/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "kernels/device.h"

namespace tritonforge::train {

void StepClock::mark(StepPart part, std::string detail) {
  std::unique_ptr<c10::Event> event;
  if (!device_.is_cpu()) {
    event = std::make_unique<c10::Event>(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  const std::lock_guard lock(mutex_);
  marks_.push_back({part, std::move(detail), Clock::now(), std::move(event)});
}

void StepClock::begin(StepPart part, std::string detail) {
  mark(part, std::move(detail));
  range_.reset();  // they nest, so one ends before the next begins
  if (device_.is_cuda() && kernels::has_gpu_kernels()) range_.emplace(names_of(part)[static_cast<size_t>(part)].data());
}

PartSeconds StepClock::end() {
  mark(StepPart::kUpdate, "");
  // Not for the whole device: weights may be on their way to the ranks beside the step that follows.
  if (marks_.back().event) marks_.back().event->synchronize();
  PartSeconds seconds{};
  for (size_t i = 0; i + 1 < marks_.size(); ++i) {
    const Mark &from = marks_[i], &to = marks_[i + 1];
    seconds[static_cast<size_t>(from.part)] += from.event ? from.event->elapsedTime(*to.event) / 1e3
                                                          : std::chrono::duration<double>(to.host - from.host).count();
  }
  abandon();
  return seconds;
}

void StepClock::abandon() {
  range_.reset();
  const std::lock_guard lock(mutex_);
  marks_.clear();
  ++ended_;
}

size_t StepClock::current() const {
  size_t mark = marks_.size() - 1;
  while (mark > 0 && marks_[mark].event && !marks_[mark].event->query()) --mark;
  return mark;
}

std::optional<StepClock::Standing> StepClock::standing() {
  const std::lock_guard lock(mutex_);
  if (marks_.empty()) return std::nullopt;
  const Seen now{ended_, current(), Clock::now()};
  if (!seen_ || seen_->ended != now.ended || seen_->mark != now.mark) seen_ = now;
  const Mark& mark = marks_[now.mark];
  std::string part{names_of(mark.part)[static_cast<size_t>(mark.part)]};
  if (!mark.detail.empty()) part += " of " + mark.detail;
  return Standing{std::move(part), std::chrono::duration<double>(now.at - seen_->at).count()};
}

}  // namespace tritonforge::train
