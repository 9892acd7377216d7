// Process P: frames from the trusted side on one socket. Entered from a sandboxed child of the Python parent, which has
// libtorch loaded already. What is sent answers {"failed": {"kind", "text"}} where it goes wrong.
//   {"open"} -> {"device": properties}
//     a GPU from here
//   {"emulate": {"part", "seed"}} -> {"emulating"}
//     test equipment from here (emulated_faults.h)
//   {"plan", "plan_bytes", "choice"?, "weights": [[name, tensor]], "tensors", "target"?, "binaries"?: [shape],
//    "problem"?: {"inputs", "inputs_bytes", "reference", "reference_bytes"}} -> {"loaded"}
//     + the plan's payload, the weights', of a drawn problem (drawn.h) both plans' and the fractions, the binaries'
//   {"choose": [configuration of each tuning]} -> {"chosen"}
//     instead of "choice"
//   {"replay", "tensors", "forward_seed", "order_seed", "schedule"?, "own_sizes"?, "launch", "without", "again",
//   "weigh", "timeout_s"}
//    -> {"tensors", "inputs", "aliases", "shared", "findings", "own": [computing, moving], "copied"}
//     + the inputs; back come the inputs after the call and the outputs
//   {"pace": pairs, "limit_s", "reference", "plan_bytes", "tensors", "forward_seed"}
//    -> {"candidate": [ms], "reference": [ms]}
//     + the reference's plan and the inputs; pairs on a CPU
// Of a drawn problem:
//   {"expect", "seed", "forward_seed"} -> {"drawn", "expected", "after"}
//     back come samples of the inputs, of the reference's outputs, and of the inputs after its call
//   {"replay", "seed", "bounds": [bounds], "input_bounds": [bounds], and the rest but for "tensors"}
//    -> as above, and {"whole": {"inputs": [[same, compared where not]], "outputs": [compared]}}, each compared one
//    being
//     [passed, absolute, relative, mismatch]
//     back come samples of what an undrawn replay sends, then those of "expect"
// On a GPU, in this order:
//   {"time", "seed", "sealer": shape, "reference"?, "plan_bytes", "tensors",
//    "trials": [[inputs, bounds, forward_seed]]} -> {"ready"}
//     + the machine code of sealed_words.h, the reference's plan, the trials' inputs and outputs
//   or {"time", "seed", "sealer", "drawn": [[seed, bounds, forward_seed]]} -> as "expect", of one trial after the other
//     + that machine code
//   {"calls": [["candidate" | "reference", input, checked]], "limit_s": [of a candidate's call, of a reference's]}
//    -> {"calls": [[ms, right, late]]}
//   {"profile": passes, "limit_s"} -> {"kernels": [resources], "candidate": [ms]}
//   {"reset"} -> {"reset"}
//     nothing of the plan is left
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>

#include "base/error.h"
#include "evaluate/channel.h"
#include "evaluate/ir/machine.h"
#include "evaluate/plan/cpu_pace.h"
#include "evaluate/plan/drawn.h"
#include "evaluate/plan/emulated_faults.h"
#include "evaluate/plan/gpu_launcher.h"
#include "evaluate/plan/gpu_timer.h"
#include "evaluate/plan/opencl_launcher.h"
#include "evaluate/plan/replay.h"

namespace tritonforge::evaluate {
namespace {

Json failure(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  const char* kind = dynamic_cast<const ir::Fault*>(&error)          ? "fault"
                     : own && own->kind() == ErrorKind::kUnsupported ? "unsupported"
                     : own                                           ? "plan"
                                                                     : "internal";
  return {{"failed", {{"kind", kind}, {"text", std::string(error.what()).substr(0, 2000)}}}};
}

struct Answer {
  Json header;
  std::vector<std::span<const std::byte>> payload;
  std::vector<ReplayedTensor> held = {};  // that `payload` looks into
  void add(const char* list, ReplayedTensor tensor) {
    header[list].push_back(tensor.described);
    held.push_back(std::move(tensor));
    payload.emplace_back(held.back().bytes);  // moved along with its vector
  }
};

Bounds bounds_from(const Json& json) { return {json.at(0), json.at(1), json.at(2)}; }

KernelShape shape_of(const Json& lowered) {
  return {.entry = lowered.at("entry"),
          .warps = lowered.at("warps"),
          .ctas = lowered.at("ctas"),
          .shared = lowered.at("shared"),
          .cooperative = lowered.at("cooperative"),
          .dependent = lowered.at("dependent"),
          .scratch = lowered.at("scratch"),
          .block = lowered.value("block", std::array<int, 3>{0, 1, 1}),
          .own_parameters = lowered.value("own_parameters", size_t{2})};
}

void wipe_all(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) wipe(tensor);
}

class Process {
 public:
  Answer answer(Frame& frame) {
    const Json& request = frame.header;
    if (request.contains("open")) return open();
    if (request.contains("emulate")) return emulate(request["emulate"]);
    if (request.contains("plan")) return load(std::move(frame));
    if (request.contains("reset")) return reset();
    if (!replayer_) fail(ErrorKind::kUsage, "replay: no plan is loaded");
    if (request.contains("choose")) return choose(request["choose"]);
    if (request.contains("replay")) return problem_ ? drawn_replay(request) : replay(frame);
    if (request.contains("expect")) return expect(request);
    if (request.contains("pace")) return paced(frame);
    if (request.contains("drawn")) return begin_drawn_timing(std::move(frame));
    if (request.contains("time")) return begin_timing(std::move(frame));
    if (!timer_) fail(ErrorKind::kUsage, "replay: timing has not begun");
    return request.contains("profile") ? profile(request) : calls(request);
  }

 private:
  Answer open() {
    open_gpu();
    const GpuProperties found = gpu_properties();
    return {{{"device",
              {{"name", found.name},
               {"uuid", found.uuid},
               {"target", fmt::format("sm_{}{}", found.major, found.minor)},
               {"multiprocessors", found.multiprocessors},
               {"l2", found.l2},
               {"memory", found.memory},
               {"bytes_per_s", found.bytes_per_s},
               {"clock_hz", found.clock_hz}}}},
            {}};
  }

  Answer emulate(const Json& how) {
    faults_.emplace(how.at("part").get<double>(), how.at("seed").get<uint64_t>());
    return {{{"emulating", true}}, {}};
  }

  Answer choose(const Json& choice) {
    replayer_->choose(choice.get<Choice>());
    return {{{"chosen", true}}, {}};
  }

  Answer load(Frame frame) {
    take_plan(std::move(frame));
    if (loaded_.header.contains("choice")) choose(loaded_.header["choice"]);
    return {{{"loaded", true}}, {}};
  }

  void take_plan(Frame frame) {
    reset();
    if (faults_) faults_->begin_plan();
    loaded_ = std::move(frame);  // the plan's constants and the weights are views into its payload
    const Json& request = loaded_.header;
    const std::span<const std::byte> all(loaded_.payload);
    size_t at = 0;
    const auto take = [&](size_t bytes) {
      if (bytes > all.size() - at) fail(ErrorKind::kUsage, "plan: a payload of {} bytes", all.size());
      at += bytes;
      return all.subspan(at - bytes, bytes);
    };
    const bool on_gpu = request.contains("binaries") && request.at("target") != "cpu";
    Plan plan = parse_plan(request.at("plan"), take(request.at("plan_bytes")),
                           on_gpu ? PlanLimits::on_gpu() : PlanLimits());
    size_t weight_bytes = 0;
    for (const auto& item : request.at("tensors")) weight_bytes += item.at("bytes").get<size_t>();
    const auto tensors = parse_tensors(request.at("tensors"), take(weight_bytes));
    for (const auto& item : request.at("weights"))
      weights_[item.at(0).get<std::string>()] = tensors.at(item.at(1).get<size_t>());
    if (request.contains("problem")) load_problem(request, on_gpu, take);
    if (!request.contains("binaries")) {
      replayer_ = std::make_unique<Replayer>(std::move(plan), weights_);
      return;
    }
    if (!on_gpu) {
      std::vector<OpenClBinary> binaries;
      for (const auto& item : request["binaries"]) binaries.push_back(opencl_binary(item, take(item.at("bytes"))));
      replayer_ = std::make_unique<Replayer>(
          std::move(plan), weights_, [&](const Plan& checked) { return make_opencl_launcher(checked, binaries); });
      return;
    }
    std::vector<GpuBinary> binaries;
    for (const auto& item : request["binaries"]) {
      if (item.at("bytes") == 0) {
        binaries.emplace_back();
        continue;
      }
      binaries.push_back({take(item.at("bytes")), shape_of(item)});
    }
    replayer_ = std::make_unique<Replayer>(std::move(plan), weights_, [&](const Plan& checked) {
      auto launcher = std::make_unique<GpuLauncher>(checked, binaries, request.at("target").get<std::string>());
      launcher_ = launcher.get();
      return launcher;
    });
  }

  template <typename Take>
  void load_problem(const Json& request, bool on_gpu, Take take) {
    const Json& problem = request["problem"];
    const auto replayer = [&](const char* plan, const char* bytes) {
      Plan parsed = parse_plan(problem.at(plan), take(problem.at(bytes)));
      if (!on_gpu) return std::make_unique<Replayer>(std::move(parsed), weights_);
      return std::make_unique<Replayer>(std::move(parsed), weights_, no_kernels);
    };
    auto inputs = replayer("inputs", "inputs_bytes"), reference = replayer("reference", "reference_bytes");
    std::vector<int64_t> fractions(kSampled);
    const auto bytes = take(fractions.size() * sizeof(int64_t));
    std::memcpy(fractions.data(), bytes.data(), bytes.size());
    problem_ = std::make_unique<DrawnProblem>(std::move(inputs), std::move(reference), std::move(fractions));
  }

  static std::unique_ptr<Launcher> no_kernels(const Plan& checked) {
    return std::make_unique<GpuLauncher>(checked, std::vector<GpuBinary>(), "");
  }

  static ReplayRequest pass_of(const Json& request) {
    return {.inputs = {},
            .forward_seed = request.at("forward_seed"),
            .order_seed = request.at("order_seed"),
            .schedule = from_name<ir::Schedule>(request.value("schedule", "drawn"), "schedule"),
            .own_sizes = request.value("own_sizes", true),
            .launch = request.at("launch"),
            .without = request.value("without", -1),
            .again = request.value("again", false),
            .weigh = request.at("weigh"),
            .timeout_s = request.at("timeout_s")};
  }

  static void add_report(const LaunchReport& report, Json& header) {
    Json findings = Json::array();
    for (const auto& finding : report.findings) findings.push_back({std::string(name_of(finding.kind)), finding.text});
    header["findings"] = std::move(findings);
    const Work own = report.own();
    header["own"] = {own.computing, own.moving};
    header["copied"] = report.only_copied;
  }

  // What the trusted side holds against what the problem's own process made of the same seeds.
  Finished add_expected(uint64_t seed, uint64_t forward_seed, Answer& answer) {
    for (const at::Tensor& input : problem_->inputs(seed)) answer.add("drawn", problem_->sample(input));
    Finished expected = problem_->expected(seed, forward_seed);
    for (const at::Tensor& output : expected.outputs) answer.add("expected", problem_->sample(output));
    return expected;
  }

  Answer expect(const Json& request) {
    if (!problem_) fail(ErrorKind::kUsage, "replay: the problem is not drawn here");
    Answer answer{.header = {{"drawn", Json::array()}, {"expected", Json::array()}, {"after", Json::array()}},
                  .payload = {}};
    const Finished expected = add_expected(request.at("seed"), request.at("forward_seed"), answer);
    for (const at::Tensor& input : expected.inputs) answer.add("after", problem_->sample(input));
    wipe_all(expected.placed);
    return answer;
  }

  Answer drawn_replay(const Json& request) {
    if (faults_) faults_->begin_replay();
    const uint64_t seed = request.at("seed");
    const Finished call = replayer_->run(problem_->inputs(seed), pass_of(request));
    Answer answer{.header = {{"tensors", Json::array()}, {"drawn", Json::array()}, {"expected", Json::array()}},
                  .payload = {}};
    for (const auto* list : {&call.inputs, &call.outputs}) {
      for (const at::Tensor& tensor : *list) answer.add("tensors", problem_->sample(tensor));
    }
    const Finished expected = add_expected(seed, request.at("forward_seed"), answer);
    Json inputs = Json::array(), outputs = Json::array();
    const auto compared = [](const at::Tensor& made, const at::Tensor& wanted, const Json& bounds,
                             const std::string& label) -> Json {
      const Comparison found = compare(made, wanted, bounds_from(bounds), label);
      return {found.passed, fmt::format("{}", found.max_abs_error), fmt::format("{}", found.max_rel_error),
              found.mismatch};
    };
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      const bool same = call.inputs[k].equal(expected.inputs.at(k));
      inputs.push_back({same, same ? Json()
                                   : compared(call.inputs[k], expected.inputs[k], request.at("input_bounds").at(k),
                                              fmt::format("input {}, after the call,", k))});
    }
    for (size_t k = 0; k < std::min(call.outputs.size(), expected.outputs.size()); ++k) {
      outputs.push_back(
          compared(call.outputs[k], expected.outputs[k], request.at("bounds").at(k), fmt::format("output {}", k)));
    }
    wipe_all(call.placed);
    wipe_all(expected.placed);
    answer.header["inputs"] = call.inputs.size();
    answer.header["aliases"] = call.aliases;
    answer.header["shared"] = call.shared;
    answer.header["whole"] = {{"inputs", std::move(inputs)}, {"outputs", std::move(outputs)}};
    add_report(call.report, answer.header);
    return answer;
  }

  // Keeps the frame, into which the sealer looks; gives what is behind that one's machine code.
  std::span<const std::byte> make_timer(Frame frame) {
    timed_ = std::move(frame);
    const std::span<const std::byte> payload(timed_.payload);
    const Json& sealer = timed_.header.at("sealer");
    const auto bytes = sealer.at("bytes").get<size_t>();
    if (bytes > payload.size()) fail(ErrorKind::kUsage, "timing: a payload of {} bytes", payload.size());
    timer_ = std::make_unique<GpuTimer>(timed_.header.at("seed").get<uint64_t>(), payload.first(bytes),
                                        shape_of(sealer));
    return payload.subspan(bytes);
  }

  Answer begin_drawn_timing(Frame frame) {
    if (launcher_ == nullptr || !problem_) fail(ErrorKind::kUsage, "replay: timing is for a problem drawn on a GPU");
    make_timer(std::move(frame));
    const Json& request = timed_.header;
    at::accelerator::emptyCache();
    Answer answer{.header = {{"drawn", Json::array()}, {"expected", Json::array()}, {"ready", true}}, .payload = {}};
    for (const auto& item : request["drawn"]) {
      const uint64_t seed = item.at(0), forward_seed = item.at(2);
      std::vector<Bounds> bounds;
      for (const auto& one : item.at(1)) bounds.push_back(bounds_from(one));
      const Finished expected = add_expected(seed, forward_seed, answer);
      timer_->add(problem_->inputs(seed), expected.outputs, bounds, forward_seed);
      wipe_all(expected.placed);
    }
    return answer;
  }

  Answer replay(const Frame& frame) {
    if (faults_) faults_->begin_replay();
    ReplayRequest request = pass_of(frame.header);
    request.inputs = parse_tensors(frame.header.at("tensors"), frame.payload);
    replay_ = replayer_->run(request);
    Answer answer;
    Json tensors = Json::array();
    for (const auto* list : {&replay_.inputs, &replay_.outputs}) {
      for (const auto& tensor : *list) {
        tensors.push_back(tensor.described);
        answer.payload.emplace_back(tensor.bytes);
      }
    }
    answer.header = {{"tensors", std::move(tensors)},
                     {"inputs", replay_.inputs.size()},
                     {"aliases", replay_.aliases},
                     {"shared", replay_.shared}};
    add_report(replay_.report, answer.header);
    return answer;
  }

  Answer paced(const Frame& frame) {
    const Json& request = frame.header;
    const std::span<const std::byte> all(frame.payload);
    const auto plan_bytes = request.at("plan_bytes").get<size_t>();
    if (plan_bytes > all.size()) fail(ErrorKind::kUsage, "plan: a payload of {} bytes", all.size());
    Replayer reference(parse_plan(request.at("reference"), all.first(plan_bytes)), weights_);
    const Pace found = pace(*replayer_, reference,
                            {.inputs = parse_tensors(request.at("tensors"), all.subspan(plan_bytes)),
                             .forward_seed = request.at("forward_seed"),
                             .pairs = request.at("pace"),
                             .limit_s = request.at("limit_s")});
    return {{{"candidate", found.candidate}, {"reference", found.reference}}, {}};
  }

  Answer begin_timing(Frame frame) {
    if (launcher_ == nullptr) fail(ErrorKind::kUsage, "replay: timing is for a GPU");
    const std::span<const std::byte> all = make_timer(std::move(frame));
    const Json& request = timed_.header;
    const auto plan_bytes = request.at("plan_bytes").get<size_t>();
    if (plan_bytes > all.size()) fail(ErrorKind::kUsage, "plan: a payload of {} bytes", all.size());
    const auto tensors = parse_tensors(request.at("tensors"), all.subspan(plan_bytes));
    auto next = tensors.begin();
    for (const auto& item : request.at("trials")) {
      GpuTimer::Input input{.inputs = {}, .outputs = {}, .bounds = {}, .forward_seed = item.at(2)};
      for (const auto& bounds : item.at(1)) input.bounds.push_back(bounds_from(bounds));
      const auto inputs = item.at(0).get<ptrdiff_t>(), outputs = static_cast<ptrdiff_t>(input.bounds.size());
      if (inputs < 0 || inputs + outputs > tensors.end() - next) fail(ErrorKind::kUsage, "timing: too few tensors");
      input.inputs.assign(next, next + inputs);
      input.outputs.assign(next + inputs, next + inputs + outputs);
      next += inputs + outputs;
      timer_->add(input);
    }
    if (request.contains("reference")) {
      reference_ = std::make_unique<Replayer>(parse_plan(request["reference"], all.first(plan_bytes)), weights_,
                                              no_kernels);
    }
    return {{{"ready", true}}, {}};
  }

  Answer calls(const Json& request) {
    const auto limits = request.at("limit_s").get<std::array<double, 2>>();
    Json made = Json::array();
    for (const Json& one : request.at("calls")) {
      const bool candidate = one.at(0) == "candidate";
      if (!candidate && !reference()) fail(ErrorKind::kUsage, "timing: no reference");
      const auto found = timer_->call(candidate ? *replayer_ : *reference(), one.at(1), one.at(2),
                                      limits[candidate ? 0 : 1]);
      made.push_back({found.ms, found.right, found.late});
    }
    return {{{"calls", std::move(made)}}, {}};
  }

  Answer profile(const Json& request) {
    Json kernels = Json::array();
    for (const auto& kernel : launcher_->kernels()) {
      if (!kernel) {
        kernels.push_back(nullptr);
        continue;
      }
      const KernelResources found = kernel->resources();
      kernels.push_back({{"registers", found.registers},
                         {"spilled_bytes", found.spilled_bytes},
                         {"shared", found.shared},
                         {"warps", kernel->shape().warps},
                         {"occupancy", found.occupancy}});
    }
    return {{{"kernels", std::move(kernels)},
             {"candidate", timer_->steps(*replayer_, 0, request.at("profile"), request.at("limit_s"))}},
            {}};
  }

  Replayer* reference() { return problem_ ? &problem_->reference() : reference_.get(); }

  Answer reset() {
    timer_.reset();
    problem_.reset();
    reference_.reset();
    replayer_.reset();
    const bool on_gpu = launcher_ != nullptr;
    launcher_ = nullptr;
    weights_.clear();
    loaded_ = timed_ = {};
    if (on_gpu) at::accelerator::emptyCache();
    return {{{"reset", true}}, {}};
  }

  Frame loaded_, timed_;
  std::map<std::string, TensorView> weights_;
  std::unique_ptr<Replayer> replayer_, reference_;
  std::unique_ptr<DrawnProblem> problem_;
  GpuLauncher* launcher_ = nullptr;  // of replayer_, on a GPU
  std::unique_ptr<GpuTimer> timer_;
  Replay replay_;
  std::optional<EmulatedFaults> faults_;
};

int serve(int fd) {
  Channel channel(fd, -1, {});
  at::set_num_threads(1);
  Process process;
  for (;;) {
    Frame frame;
    std::string detail;
    if (channel.receive(frame, Deadline::after(3600), detail) != Silence::kNone) return 0;
    Answer answer;
    try {
      answer = process.answer(frame);
    } catch (const std::exception& error) {
      answer = {failure(error), {}};
    }
    if (channel.send(answer.header, answer.payload, Deadline::after(60)) != Silence::kNone) return 0;
  }
}

}  // namespace
}  // namespace tritonforge::evaluate

extern "C" __attribute__((visibility("default"))) int tritonforge_replay(int fd) {
  try {
    return tritonforge::evaluate::serve(fd);
  } catch (const std::exception&) {
    return 1;
  }
}
