#include "evaluate/device_pool.h"

#include <algorithm>
#include <map>

#include "base/log.h"

namespace tritonforge::evaluate {

// One job's place on a device.
class DevicePool::Turn {
 public:
  Turn(DevicePool& pool, Entry& entry) : pool_(pool), entry_(entry) {}
  ~Turn() {
    {
      const std::lock_guard lock(pool_.mutex_);
      --entry_.busy;
    }
    pool_.changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  DevicePool& pool_;
  Entry& entry_;
};

DevicePool::DevicePool(std::vector<std::unique_ptr<Device>> devices, Probe probe, DevicePoolOptions options)
    : probe_(std::move(probe)), options_(options), entries_(devices.size()) {
  TF_CHECK(!devices.empty(), "a pool of no devices");
  for (size_t i = 0; i < devices.size(); ++i) entries_[i].device = std::move(devices[i]);
}

DevicePool::Entry* DevicePool::well() {
  Entry* best = nullptr;
  for (Entry& entry : entries_) {
    if (entry.state != DeviceState::kHealthy) continue;
    if (!best || std::pair(entry.busy, entry.faults) < std::pair(best->busy, best->faults)) best = &entry;
  }
  return best;
}

DevicePool::Entry* DevicePool::due() {
  for (Entry& entry : entries_) {
    const bool waits = entry.state == DeviceState::kQuarantined && !entry.retry.expired();
    if (entry.state != DeviceState::kHealthy && !entry.probing && !waits) return &entry;
  }
  return nullptr;
}

DevicePool::Entry& DevicePool::take(const Client& client) {
  std::unique_lock lock(mutex_);
  for (;;) {
    check_waited_for(client.left);
    if (Entry* unsure = due()) {  // first of all, so that it is not left unsure while others are well
      const uint64_t before = unsure->probes_begun;
      lock.unlock();
      examine(*unsure, before);
      lock.lock();
      continue;
    }
    if (Entry* best = well()) {
      ++best->busy;
      return *best;
    }
    auto until = client.deadline.at();
    std::string ill;
    for (const Entry& entry : entries_) {
      if (!entry.probing) until = std::min(until, entry.retry.at());
      ill += fmt::format("{}{} is {}: {}", ill.empty() ? "" : "; ", entry.device->uuid(), name_of(entry.state),
                         entry.last_fault);
    }
    if (client.deadline.expired()) fail(ErrorKind::kUnavailable, "evaluator: no device is well: {}", ill);
    changed_.wait_until(lock, client.left, until, [&] { return due() != nullptr || well() != nullptr; });
  }
}

bool DevicePool::examine(Entry& entry, uint64_t before) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !entry.probing; });
    if (entry.probes_begun > before && entry.told) return entry.failed_in_a_row == 0;
    entry.probing = true;
    ++entry.probes_begun;
    if (entry.state == DeviceState::kHealthy) entry.state = DeviceState::kSuspect;
  }
  std::string wrong;
  std::exception_ptr unknown;  // it could not be asked
  try {
    wrong = probe_(*entry.device);
  } catch (...) {
    unknown = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    entry.probing = false;
    entry.told = !unknown;
    ++entry.probes;
    if (wrong.empty() && !unknown) {
      if (entry.state == DeviceState::kQuarantined) log::info("device {} is back", entry.device->uuid());
      entry.state = DeviceState::kHealthy;
      entry.failed_in_a_row = 0;
      entry.pause_s = 0;
    } else if (!unknown) {
      ++entry.failed_probes;
      entry.last_fault = wrong;
      if (++entry.failed_in_a_row >= kProbes) {
        entry.state = DeviceState::kQuarantined;
        entry.pause_s = std::clamp(2 * entry.pause_s, options_.first_pause_s, options_.longest_pause_s);
        entry.retry = Deadline::after(entry.pause_s);
        log::warn("device {} is quarantined for {:.0f} s: {}", entry.device->uuid(), entry.pause_s, wrong);
      }
    }
  }
  changed_.notify_all();
  if (unknown) std::rethrow_exception(unknown);
  return wrong.empty();
}

void DevicePool::run(const std::function<Result(Device&)>& job, const Client& client) {
  double chance = 1;                   // that the devices alone are to blame
  std::map<const Entry*, double> own;  // losses of this job
  for (;;) {
    Entry& entry = take(client);
    const Turn turn(*this, entry);
    std::string lost;          // why there is no result
    std::exception_ptr error;  // what stands where the device is well
    uint64_t before = 0;       // probes begun until its end
    try {
      const Result result = job(*entry.device);
      {
        const std::lock_guard lock(mutex_);
        ++entry.jobs;
        before = entry.probes_begun;
      }
      if (result == Result::kSure || examine(entry, before)) return;
      continue;
    } catch (const DeviceFault& fault) {
      lost = fault.text;
    } catch (const Error& failed) {
      if (failed.kind() != ErrorKind::kUnavailable) throw;
      error = std::current_exception();
    }
    double rate = 0;  // of the others' jobs that it lost; what is not known yet is taken for one of ten
    {
      const std::lock_guard lock(mutex_);
      before = entry.probes_begun;
      if (!error) {
        const double others = static_cast<double>(entry.jobs) - own[&entry];
        rate = (static_cast<double>(entry.faults) - own[&entry] + 1) / (others + 10);
        ++own[&entry];
        ++entry.jobs;
        ++entry.faults;
        entry.last_fault = lost;
      }
    }
    const bool is_well = examine(entry, before);
    if (error && is_well) std::rethrow_exception(error);
    if (is_well) chance *= rate;
    if (chance < kBeyondDoubt) {
      const std::lock_guard lock(mutex_);  // which are none of the devices' then
      for (Entry& one : entries_) one.faults -= static_cast<uint64_t>(own[&one]);
      throw DeviceFault{lost};
    }
    if (!error) log::warn("device {}: {}; the job is run again", entry.device->uuid(), lost);
  }
}

Json DevicePool::status() const {
  const std::lock_guard lock(mutex_);
  Json out = Json::array();
  for (size_t id = 0; id < entries_.size(); ++id) {
    const Entry& entry = entries_[id];
    out.push_back({{"id", id},
                   {"uuid", entry.device->uuid()},
                   {"device", entry.device->name()},
                   {"state", name_of(entry.state)},
                   {"healthy", entry.state == DeviceState::kHealthy},
                   {"busy", entry.busy},
                   {"jobs", entry.jobs},
                   {"fault_count", entry.faults},
                   {"probes", entry.probes},
                   {"failed_probes", entry.failed_probes},
                   {"last_fault", entry.last_fault}});
  }
  return out;
}

void DevicePool::reset(size_t id) {
  {
    const std::lock_guard lock(mutex_);
    if (id >= entries_.size()) fail(ErrorKind::kNotFound, "device {}: there are {}", id, entries_.size());
    entries_[id].state = DeviceState::kSuspect;
    entries_[id].failed_in_a_row = 0;
    entries_[id].retry = Deadline::after(0);
  }
  changed_.notify_all();
}

}  // namespace tritonforge::evaluate
