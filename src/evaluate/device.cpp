#include "evaluate/device.h"

#include <atomic>
#include <cstring>
#include <numeric>

#include "base/rng.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {
namespace {

constexpr int kPrograms = 4, kBlock = 256;
constexpr size_t kMaxAnswer = 1 << 20;
constexpr std::string_view kAddOne = R"(module {
  tt.func public @probe(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %one = arith.constant dense<1.000000e+00> : tensor<256xf32>
    %block = arith.constant 256 : i32
    %program = tt.get_program_id x : i32
    %first = arith.muli %program, %block : i32
    %range = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
    %firsts = tt.splat %first : i32 -> tensor<256xi32>
    %at = arith.addi %firsts, %range : tensor<256xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %from = tt.addptr %xs, %at : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    %value = tt.load %from : tensor<256x!tt.ptr<f32>>
    %more = arith.addf %value, %one : tensor<256xf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %to = tt.addptr %ys, %at : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    tt.store %to, %more : tensor<256x!tt.ptr<f32>>
    tt.return
  }
}
)";

// y = x + 1 as a plan (plan/plan.h).
Json plan_of(const std::string& target) {
  const Json vector = {{"dtype", "float32"}, {"shape", {kPrograms * kBlock}}, {"stride", {1}}};
  Json input = vector;
  input["input"] = 0;
  const Json options = {{"num_warps", 4}, {"num_stages", 1}, {"num_ctas", 1}};
  return {{"values", {input, vector}},
          {"kernels", {{{"name", "probe"}, {"options", options}, {"ir", {{target, 0}}}, {"errors", Json::object()}}}},
          {"steps",
           {{{"aten", "aten::empty_like"},
             {"overload", ""},
             {"args", {{{"t", 0}}}},
             {"kwargs", Json::object()},
             {"out", {1}}},
            {{"launch", 0}, {"grid", {kPrograms, 1, 1}}, {"args", {{{"t", 0}}, {{"t", 1}}}}}}},
          {"outputs", {{"tuple", {{{"tensor", 1}}}}}},
          {"inputs", 1},
          {"texts", {kAddOne.size()}},
          {"constants", Json::array()}};
}

// The probe's process; throws the text of what came instead of an answer.
Frame ask(Child& child, const Json& request, const std::vector<std::span<const std::byte>>& payload,
          Deadline deadline) {
  Frame frame = ask_replayer(child, "the probe's process", request, payload, deadline, kMaxAnswer);
  if (frame.header.contains("failed")) throw DeviceFault{"the probe: " + frame.header["failed"].value("text", "")};
  return frame;
}

void run_probe(Device& device, const Json& plan, const std::optional<Lowered>& lowered, Deadline deadline) {
  std::vector<float> x(kPrograms * kBlock), expected(x.size());
  std::iota(x.begin(), x.end(), 0.0f);
  std::iota(expected.begin(), expected.end(), 1.0f);
  ChildPool::Worker worker = device.replayers().take(deadline);
  Json load = {{"plan", plan}, {"plan_bytes", kAddOne.size()}, {"weights", Json::array()}, {"tensors", Json::array()}};
  std::vector<std::span<const std::byte>> payload{std::as_bytes(std::span(kAddOne))};
  if (lowered) {
    Json shape = lowered->shape;
    shape["bytes"] = lowered->binary->size();
    load["target"] = device.target();
    load["binaries"] = {shape};
    payload.emplace_back(*lowered->binary);
  }
  ask(*worker.child, load, payload, deadline);
  const auto bytes = std::as_bytes(std::span(x));
  const Json input = {{"dtype", "float32"}, {"shape", {x.size()}}, {"order", {0}}, {"bytes", bytes.size()}};
  const Frame answer = ask(*worker.child,
                           {{"replay", true},
                            {"tensors", {input}},
                            {"forward_seed", 1},
                            {"order_seed", 1},
                            {"launch", true},
                            {"weigh", false},
                            {"timeout_s", deadline.remaining_s()}},
                           {bytes}, deadline);
  const auto tensors = parse_tensors(answer.header.at("tensors"), answer.payload);
  if (tensors.size() != 2 || tensors[1].bytes.size() != bytes.size() ||
      std::memcmp(tensors[1].bytes.data(), expected.data(), bytes.size()) != 0)
    throw DeviceFault{"the probe's result is wrong"};
  device.replayers().give_back(std::move(worker));
}

}  // namespace

Frame ask_replayer(Child& replayer, const std::string& who, const Json& request,
                   const std::vector<std::span<const std::byte>>& payload, Deadline deadline, size_t most_bytes) {
  Frame frame;
  std::string detail;
  Silence silence = replayer.channel().send(request, payload, deadline);
  if (silence == Silence::kNone) silence = replayer.channel().receive(frame, deadline, detail, most_bytes);
  if (silence != Silence::kNone) throw DeviceFault{who + " " + describe_silence(silence, replayer, detail, 0)};
  return frame;
}

std::string probe_kernel() { return std::string(kAddOne); }

std::string probe(Device& device, LoweringPool& lowering, Deadline deadline) {
  const std::string target = device.gpu() ? device.target() : "sm_90";
  const Json plan = plan_of(target);
  std::optional<Lowered> lowered;
  if (device.gpu()) {
    lowered = lowering.lower(language_of(Backend::kTriton), probe_kernel(), target, plan["kernels"][0]["options"],
                             deadline, true);
    if (!lowered->ok) fail(ErrorKind::kUnavailable, "evaluator: the probe's kernel: {}", lowered->error);
  }
  try {
    run_probe(device, plan, lowered, deadline);
    return "";
  } catch (const DeviceFault& fault) {
    return fault.text;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnavailable) throw;  // there is no process to ask
    return error.what();
  }
}

namespace {

ChildPool::Prepare emulating(const EmulatedFaults& faults) {
  const auto started = std::make_shared<std::atomic<uint64_t>>(0);
  return [faults, started](Child& child, Deadline deadline) {
    ask(child, {{"emulate", {{"part", faults.part}, {"seed", Rng::derive(faults.seed, (*started)++) >> 1}}}}, {},
        deadline);
  };
}

}  // namespace

CpuDevice::CpuDevice(Children& children, const ChildLimits& limits)
    : uuid_("cpu"),
      pool_(children, "replay", limits, kPlansPerReplayer),
      references_(children, "replay", limits, kPlansPerReplayer) {}

CpuDevice::CpuDevice(Children& children, const ChildLimits& limits, int index, const EmulatedFaults& faults)
    : uuid_(fmt::format("emulated-gfx942:{}", index)),
      emulated_(true),
      pool_(children, "replay", limits, kPlansPerReplayer, emulating(faults)),
      references_(children, "replay", limits, kPlansPerReplayer) {}

std::vector<Target> CpuDevice::also_compiled_for() const {
  return emulated_ ? std::vector{Target::kGfx942} : std::vector<Target>();
}

}  // namespace tritonforge::evaluate
