#pragma once
// Several devices as one: a job goes to the least busy one that is well; one that loses a process is probed, and what
// it ran is run elsewhere. Thread-safe.
//
//   healthy      takes jobs
//   suspect      lost a process, or gave a result that a dying device might give; takes none until a probe's is right
//   quarantined  kProbes probes in a row failed; it is probed again after a pause that doubles
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/named_enum.h"
#include "evaluate/client.h"
#include "evaluate/device.h"

namespace tritonforge::evaluate {

enum class DeviceState { kHealthy, kSuspect, kQuarantined };
constexpr std::array<std::string_view, 3> names_of(DeviceState) { return {"healthy", "suspect", "quarantined"}; }

struct DevicePoolOptions {
  double first_pause_s = 10;  // of a quarantine
  double longest_pause_s = 600;
};

class DevicePool {
 public:
  static constexpr int kProbes = 3;
  // A job whose processes were lost on devices that are well is to blame once the chance that the devices lost all of
  // them by themselves, each at the rate at which it loses others' jobs, is below this.
  static constexpr double kBeyondDoubt = 1e-6;

  // Empty: the device is well; else what is wrong with it. Throws where it could not be asked.
  using Probe = std::function<std::string(Device&)>;
  DevicePool(std::vector<std::unique_ptr<Device>> devices, Probe probe, DevicePoolOptions options = {});

  // Calls `job` on one device after the other until one call stands: it returned kSure, or kDoubtful and the device's
  // probe is right afterwards. kDoubtful: what came may be the device's doing. A job that throws DeviceFault, or
  // kUnavailable on a device whose probe then fails, is called again. Throws DeviceFault where the job is to blame,
  // kUnavailable where no device is well by the client's deadline, kTimeout where the client left, and what `job`
  // throws.
  enum class Result { kSure, kDoubtful };
  void run(const std::function<Result(Device&)>& job, const Client& client);

  // [{"id", "uuid", "device", "state", "healthy", "busy", "jobs", "fault_count", "probes", "failed_probes",
  //   "last_fault"}]
  Json status() const;
  // It is probed before its next job, whatever its state. Throws kNotFound.
  void reset(size_t id);

 private:
  struct Entry {
    std::unique_ptr<Device> device;
    DeviceState state = DeviceState::kHealthy;
    bool probing = false;
    int busy = 0, failed_in_a_row = 0;
    uint64_t jobs = 0, faults = 0, probes = 0, failed_probes = 0;
    uint64_t probes_begun = 0;
    bool told = false;  // the last probe gave an answer
    std::string last_fault;
    double pause_s = 0;
    Deadline retry = Deadline::after(0);  // of a quarantine: not probed before
  };
  class Turn;

  Entry& take(const Client& client);
  Entry* well();  // with the mutex held
  Entry* due();   // a probe of it is
  // Whether it is well, by a probe that begins after its first `before` ones: whoever's, so that many jobs that end at
  // once wait for one. Its state follows.
  bool examine(Entry& entry, uint64_t before);

  const Probe probe_;
  const DevicePoolOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Entry> entries_;
};

}  // namespace tritonforge::evaluate
