#include <fmt/format.h>

#include <memory>
#include <thread>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "evaluate/zygote.h"
#include "tracking/receiver.h"

namespace tritonforge::cli {
namespace {

struct TrackFlags {
  fs::path run;
  tracking::Destination to;
  bool follow = false;
  void describe(OptionList& v) {
    v("to", to.target, "who gets the figures; tensorboard: files in RUN/tensorboard");
    v("project", to.project, "of Weights & Biases; the experiment of MLflow");
    v("python", to.python, "Python with wandb or mlflow (TRITONFORGE_PYTHON, else the build's)");
    v("follow", follow, "goes on with what the run writes until SIGTERM; else ends with what is there");
  }
};

void track(TrackFlags flags) {
  log::start(fmt::format("track:{}", name_of(flags.to.target)));
  SignalWaiter signals;
  if (flags.to.python.empty() && flags.to.target != tracking::Target::kTensorboard)
    flags.to.python = evaluate::find_python();
  std::stop_source stop;
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    while (!done && signals.wait(Deadline::after(0.2)) == 0) {}
    stop.request_stop();
  });
  int64_t points = 0;
  std::exception_ptr failure;
  try {
    points = tracking::track(flags.to, flags.run, flags.follow, stop.get_token());
  } catch (...) {
    failure = std::current_exception();
  }
  done = true;
  waiter.join();
  if (failure) std::rethrow_exception(failure);
  fmt::print("{} has {} points of {} that it had not\n", name_of(flags.to.target), points, flags.run.string());
}

}  // namespace

void add_track_command(CLI::App& app) {
  auto* command = app.add_subcommand("track", "hands a run's figures to TensorBoard, Weights & Biases or MLflow");
  auto flags = std::make_shared<TrackFlags>();
  command->add_option("run", flags->run, "the run's folder")->required();
  add_flags(*command, *flags);
  command
      ->add_flag_callback(
          "--names",
          [] {
            fmt::print("{}", tracking::metrics_reference());
            throw CLI::Success();
          },
          "prints the names of all figures (docs/metrics.md)")
      ->trigger_on_parse();
  command->footer(
      "A run does it by itself where its recipe says so: --set tracking.to=[tensorboard,wandb].\n"
      "example: tritonforge track runs/quickstart-seed1 --to tensorboard");
  command->callback([flags] { track(*flags); });
}

}  // namespace tritonforge::cli
