#pragma once
// Who gets a run's figures, and the way there: `tritonforge track` reads a run's folder while it grows, in a process of
// its own, so that a receiver that is slow, hangs or is not there costs the run nothing.
#include <array>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/filesystem.h"
#include "tracking/figures.h"

namespace tritonforge::tracking {

enum class Target { kTensorboard, kWandb, kMlflow };
constexpr std::array<std::string_view, 3> names_of(Target) { return {"tensorboard", "wandb", "mlflow"}; }

struct Destination {
  Target target = Target::kTensorboard;
  std::string project = "tritonforge";  // of W&B; the experiment of MLflow
  fs::path python;                      // with the receiver's own package; not for TensorBoard
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void put(const Point& point) = 0;
  // Whether what was put has been handed over; false: its package sends by itself, and only finish() waits for that.
  // Throws kUnavailable, kMachine.
  virtual bool flush() = 0;
  virtual void finish() = 0;  // all is handed over, and no more comes
};
// Throws kMachine where the receiver's package is not there.
std::unique_ptr<Receiver> make_receiver(const Destination& destination, const fs::path& run);

// Hands over what a run has written since the last time (RUN/tracking/NAME.json says how far that was), and with
// `follow` goes on until it is asked to stop. At least once: what was handed over just before a kill -9 comes again.
// Returns how many points it handed over. Throws kUnavailable where another process hands them to the same receiver.
int64_t track(const Destination& destination, const fs::path& run, bool follow, const std::stop_token& stop);

}  // namespace tritonforge::tracking
