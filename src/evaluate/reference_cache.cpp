#include "evaluate/reference_cache.h"

#include "evaluate/drawn_reference.h"

namespace tritonforge::evaluate {
namespace {

std::unique_lock<std::timed_mutex> take_turn(std::timed_mutex& turn, Deadline deadline) {
  std::unique_lock lock(turn, std::defer_lock);
  if (!lock.try_lock_until(deadline.at()))
    fail(ErrorKind::kTimeout, "evaluator: the problem's reference was not free in time");
  return lock;
}

}  // namespace

std::shared_ptr<ReferenceCache::Problem> ReferenceCache::problem_of(const std::string& key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(problems_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = problems_[key];
  auto problem = known.lock();
  if (!problem) known = problem = std::make_shared<Problem>();
  return problem;
}

void ReferenceCache::keep(const std::shared_ptr<Problem>& problem) {
  std::shared_ptr<Problem> oldest;  // ends its process after the lock is gone
  const std::lock_guard lock(mutex_);
  kept_.remove(problem);
  kept_.push_front(problem);
  if (kept_.size() > processes_) {
    oldest = std::move(kept_.back());
    kept_.pop_back();
  }
}

size_t ReferenceCache::processes() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

std::shared_ptr<const ReferenceData> ReferenceCache::data(const std::string& key, const ReferenceSpec& spec,
                                                          const ChildLimits& limits, Deadline deadline) {
  if (auto cached = data_.get(key)) return *cached;
  const auto problem = problem_of(key);
  const auto turn = take_turn(problem->turn, deadline);
  if (auto cached = data_.get(key)) return *cached;
  std::unique_ptr<Child> process;
  ReferenceSpec asked = spec;
  std::shared_ptr<const ReferenceData> made;
  if (spec.draws_on) made = draw_reference(children_, asked, limits, process, deadline);
  if (!made) {
    if (!process) process = children_.spawn("reference", limits, deadline);
    made = make_reference(*process, asked, deadline);
  }
  if (process) ++asked_;
  data_.put(key, made, made->bytes());
  if (spec.timed && !spec.weigh && processes_ > 0) {  // a module that was recorded is of no further use
    problem->process = std::move(process);
    keep(problem);
  }
  return made;
}

// Not kept any more. By who has the problem's turn.
std::unique_ptr<Child> ReferenceCache::process_of(Problem& problem, const ReferenceSpec& spec,
                                                  const ChildLimits& limits, Deadline deadline) {
  auto process = std::move(problem.process);
  if (process && process->alive()) return process;
  ReferenceSpec module_only = spec;
  module_only.trials.clear();
  module_only.weigh = false;
  process = children_.spawn("reference", limits, deadline);
  make_reference(*process, module_only, deadline);
  return process;
}

ReferenceCache::Place ReferenceCache::place_to_compile(Deadline deadline) {
  if (!compiling_.try_acquire_until(deadline.at()))
    fail(ErrorKind::kTimeout, "evaluator: torch.compile's versions of other problems took until the deadline");
  return Place(compiling_);
}

void ReferenceCache::compile_ahead(const std::string& key, const ReferenceSpec& spec, const ChildLimits& limits,
                                   Deadline deadline, const std::function<void(Child&)>& compile) {
  if (processes_ == 0 || compiled_.get(key)) return;
  const auto problem = problem_of(key);
  const auto turn = take_turn(problem->turn, deadline);
  if (problem->process || compiled_.get(key)) return;
  const Place place = place_to_compile(deadline);
  auto process = process_of(*problem, spec, limits, deadline);
  compile(*process);
  problem->process = std::move(process);
  keep(problem);
}

CompiledBaseline ReferenceCache::compiled(const std::string& key, const ReferenceSpec& spec, const ChildLimits& limits,
                                          Deadline deadline, const std::function<CompiledBaseline(Child&)>& measure) {
  std::optional<KnownBaseline> known;
  const auto is_known = [&] {
    known = compiled_.get(key);
    return known && Clock::now() < known->again;
  };
  if (is_known()) return known->baseline;
  const auto problem = problem_of(key);
  const auto turn = take_turn(problem->turn, deadline);
  if (is_known()) return known->baseline;
  const Place place = place_to_compile(deadline);
  const auto process = process_of(*problem, spec, limits, deadline);
  KnownBaseline found{.tries = known ? known->tries + 1 : 0};
  try {
    found.baseline = measure(*process);
  } catch (const TimingFault& fault) {
    found.baseline = {.unavailable = fault.text, .may_pass = true};
  }
  if (found.baseline.may_pass) found.again = Clock::now() + std::chrono::minutes(1) * (1 << std::min(found.tries, 10));
  compiled_.put(key, found);
  return found.baseline;
}

void ReferenceCache::with_process(const std::string& key, const ReferenceSpec& spec, const ChildLimits& limits,
                                  Deadline deadline, const std::function<bool(Child&)>& use) {
  const auto problem = problem_of(key);
  const auto turn = take_turn(problem->turn, deadline);
  auto process = process_of(*problem, spec, limits, deadline);  // back only where it is fit
  if (!use(*process) || processes_ == 0) return;
  problem->process = std::move(process);
  keep(problem);
}

}  // namespace tritonforge::evaluate
