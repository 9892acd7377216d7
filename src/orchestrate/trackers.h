#pragma once
// The processes that hand a run's figures to others (src/tracking) while it goes on. They read the run's folder and are
// waited for only at its end, and then not for long: none of them can slow or end the run.
#include <memory>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/options.h"
#include "base/process.h"

namespace tritonforge::orchestrate {

struct TrackingSection {
  std::vector<std::string> to;
  std::string project = "tritonforge", python;
  double grace_s = 10;
  template <typename V>
  void describe(V& v) {
    v("to", to, one_of({"tensorboard", "wandb", "mlflow"}),
      "who gets the run's figures, each from a process of its own (docs/metrics.md)");
    v("project", project, "of Weights & Biases; the experiment of MLflow");
    v("python", python, "Python with wandb or mlflow; empty: the one of the evaluator");
    v("grace_s", grace_s, in(0, 3600), "seconds that they may take at the run's end; then they are ended");
  }
};

class Trackers {
 public:
  Trackers(const TrackingSection& section, const fs::path& run);  // one that does not start is a warning
  ~Trackers();                                                    // stop()
  // Asks all to hand over what is left and waits for grace_s together. A line for each that did not end well: what was
  // the matter, and the command that hands over the rest later.
  std::vector<std::string> stop();

 private:
  struct One {
    std::string target;
    std::unique_ptr<ChildProcess> process;
  };
  double grace_s_;
  fs::path run_;
  std::vector<One> all_;
};

}  // namespace tritonforge::orchestrate
