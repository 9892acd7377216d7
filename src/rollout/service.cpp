#include "rollout/service.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/log.h"
#include "net/retry.h"

namespace tritonforge::rollout {

RolloutService::RolloutService(ServiceOptions options, std::unique_ptr<ChatCodec> codec)
    : options_(std::move(options)),
      codec_(std::move(codec)),
      peers_(options_.peers),
      evaluations_(options_.evaluations),
      store_(options_.database, options_.retention),
      generator_(peers_, *codec_, evaluations_, activity_, &store_),
      pool_(options_.concurrency,
            [this](const GroupPtr& group, int64_t sample, std::stop_token stop) { run_one(group, sample, stop); }) {
  const auto unfinished = store_.unfinished();
  size_t samples = 0;
  for (const auto& entry : unfinished) {
    if (options_.concurrency > 0) require_codec(*codec_, entry.group);
    samples += entry.missing.size();
    pool_.submit(std::make_shared<const GroupSpec>(entry.group), entry.missing);
  }
  if (!unfinished.empty()) log::info("resumes {} unfinished groups, {} samples missing", unfinished.size(), samples);
}

RolloutService::~RolloutService() = default;

Store::Accepted RolloutService::start_groups(const std::vector<GroupSpec>& groups) {
  if (stopping_) fail(ErrorKind::kUnavailable, "the buffer is stopping");
  size_t samples = pool_.queued();
  for (const GroupSpec& group : groups) {
    if (options_.concurrency > 0) require_codec(*codec_, group);
    samples += static_cast<size_t>(group.n_samples);
  }
  if (samples > options_.max_queued) {
    fail(ErrorKind::kUnavailable, "{} samples would wait, at most {} may; send them later", samples,
         options_.max_queued);
  }
  auto result = store_.add_groups(groups);
  for (const GroupSpec& group : result.groups) {
    std::vector<int64_t> all(static_cast<size_t>(group.n_samples));
    std::iota(all.begin(), all.end(), 0);
    pool_.submit(std::make_shared<const GroupSpec>(group), all);
  }
  return result;
}

RolloutService::State RolloutService::state() const {
  State state;
  state.stopping = stopping_;
  state.queued = pool_.queued();
  state.running = pool_.running();
  state.generating = activity_.generating;
  state.evaluating = activity_.evaluating;
  state.turns = activity_.turns;
  state.failed_turns = activity_.failed_turns;
  state.sampled_tokens = activity_.sampled_tokens;
  state.refused_key = peers_.refused_key();
  std::lock_guard lock(mutex_);
  state.unwritten = unwritten_;
  state.write_error = write_error_;
  return state;
}

void RolloutService::on_group_complete(std::function<void()> callback) {
  std::lock_guard lock(mutex_);
  group_complete_ = std::move(callback);
}

bool RolloutService::stop(double grace_s) {
  stopping_ = true;
  pool_.request_stop();
  return pool_.wait_idle(Deadline::after(grace_s));
}

void RolloutService::join() { pool_.join(); }

void RolloutService::run_one(const GroupPtr& group, int64_t sample, std::stop_token stop) {
  std::optional<Trajectory> trajectory;
  try {
    trajectory = generator_.run(*group, sample, stop);
  } catch (const std::exception& error) {
    log::error("trajectory {}: {}", trajectory_id(group->id, sample), error.what());
    trajectory = failed_trajectory(*group, sample, Fault::kInternal, error.what());
  }
  if (trajectory) write(*group, std::move(*trajectory), sample, stop);
}

void RolloutService::deliver(const Trajectory& trajectory) {
  const size_t dot = trajectory.id.rfind('.');
  int64_t sample = -1;
  if (dot != std::string::npos)
    std::from_chars(trajectory.id.data() + dot + 1, trajectory.id.data() + trajectory.id.size(), sample);
  if (trajectory.id != trajectory_id(trajectory.group_id, sample))
    fail(ErrorKind::kUsage, "trajectory '{}' is no sample of group '{}'", trajectory.id, trajectory.group_id);
  if (!store_.write_trajectory(trajectory, sample)) return;
  std::unique_lock lock(mutex_);
  const auto callback = group_complete_;
  lock.unlock();
  if (callback) callback();
}

// A finished trajectory stays here until the disk takes it; its thread waits with it, so that what is held in memory is
// bounded by the concurrency. One that no disk would take is set aside: its place is taken by one that says why.
void RolloutService::write(const GroupSpec& group, Trajectory trajectory, int64_t sample, std::stop_token stop) {
  bool waiting = false;
  const net::Backoff backoff{.first_s = 0.1, .max_s = 5, .factor = 2};
  int tries = 0;
  bool aside = false;
  while (true) {
    std::string reason;
    try {
      const bool complete = store_.write_trajectory(trajectory, sample);
      std::unique_lock lock(mutex_);
      if (waiting) --unwritten_;
      // A small one may fit while larger ones still wait.
      if (unwritten_ == 0) write_error_.clear();
      const auto callback = complete ? group_complete_ : nullptr;
      lock.unlock();
      if (callback) callback();
      return;
    } catch (const std::exception& error) {
      reason = error.what();
      const auto* known = dynamic_cast<const Error*>(&error);
      if (known != nullptr && known->kind() == ErrorKind::kNotFound) {
        log::warn("trajectory {} is for nobody any more: {}", trajectory.id, reason);
        return;
      }
      if (!aside && (known == nullptr || known->kind() != ErrorKind::kUnavailable)) {
        log::error("trajectory {} is set aside, it cannot be stored: {}", trajectory.id, reason);
        trajectory = failed_trajectory(group, sample, Fault::kInternal, reason);
        aside = true;
        continue;
      }
    }
    {
      std::lock_guard lock(mutex_);
      if (!waiting) ++unwritten_;
      write_error_ = reason;
    }
    waiting = true;
    if (stop.stop_requested()) {
      log::error("trajectory {} could not be written before the stop and will be made again: {}", trajectory.id,
                 reason);
      return;
    }
    log::error("trajectory {} is kept in memory, it cannot be written: {}", trajectory.id, reason);
    net::pause(backoff.pause_s(tries++), stop);
  }
}

}  // namespace tritonforge::rollout
