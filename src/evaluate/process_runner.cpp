#include "evaluate/process_runner.h"

#include <algorithm>

#include "base/sip_hash.h"

namespace tritonforge::evaluate {
namespace {

Report report_of(const Json& header, size_t trial) {
  Report report{.launched = number_or(header, "launches", 0) > 0,
                .kernels = strings_of(header, "kernels"),
                .swallowed = strings_of(header, "swallowed"),
                .tampered = strings_of(header, "tampered")};
  if (header.contains("subclass")) report.subclass = clipped(string_or(header, "subclass", "?"), 200);
  const Json counts = header.value("torch_ops", Json::object());
  for (const auto& [name, count] : counts.items()) {
    if (trial == 0 && report.torch_ops.size() < 16 && count.is_number_integer())
      report.torch_ops.push_back(fmt::format("{} x{}", clipped(name, 40), count.get<int64_t>()));
  }
  return report;
}

// Anything that an answer lacks is a forgery: the worker's own answers have it.
template <typename Read>
void read_answer(std::optional<Ended>& ended, Read read) {
  try {
    read();
  } catch (const Ended& end) {
    ended = end;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    ended = forged(error.what());
  } catch (const nlohmann::json::exception&) {
    ended = forged("a message without the expected fields");
  }
}

}  // namespace

Loaded ProcessRunner::load() {
  Loaded loaded;
  candidate_.emplace(context_.children.spawn("candidate", limits_, context_.overall), time_);
  time_ = OwnTime(context_.limit_s, context_.left);  // it begins when the process is there
  loaded.layers = candidate_->child().layers();
  read_answer(loaded.ended, [&] { load(loaded); });
  if (loaded.ended) loaded.compiled = compiled(nullptr);
  return loaded;
}

void ProcessRunner::load(Loaded& loaded) {
  const ReferenceData& reference = context_.reference;
  const Json request = {{"op", "load"},
                        {"source", context_.request.candidate},
                        {"seed", context_.init_seed},
                        {"init", reference.init},
                        {"tensors", reference.tensors},
                        {"state", reference.state},
                        {"sizes", reference.sizes},
                        {"targets", names_of(context_.request.targets)}};
  candidate_->send(request, {reference.payload}, "being loaded");
  struct Step {
    const char* name;
    const char* doing;
    Stage stage;
  };
  for (const Step& step :
       {Step{"parsed", "being parsed", Stage::kParsed}, Step{"imported", "being imported", Stage::kImported},
        Step{"built", "ModelNew was constructed", Stage::kImported}}) {
    const Frame frame = candidate_->next(step.doing);
    if (string_or(frame.header, "stage", "") != step.name)
      throw forged(fmt::format("a message out of order while {}: {}", step.doing, clipped(frame.header.dump(), 200)));
    loaded.stage = step.stage;
    if (step.stage == Stage::kParsed) loaded.doubts = screen_of(frame.header);
    if (const auto own = strings_of(frame.header, "own_weights"); !own.empty()) loaded.own_weights = own;
  }
}

Call ProcessRunner::call(size_t trial, Launches launches) {
  // Ask: the inputs, and a nonce that the answer must carry.
  const ReferenceTrial& expected = *context_.reference.trials[trial];
  const bool ghost = launches == Launches::kNone;
  const std::string nonce = fmt::format("{:016x}", sip_hash({context_.secret, asked_++}, "nonce"));
  const size_t awaited = 2 * expected.payload.size();
  const Json request = {{"op", "trial"},
                        {"nonce", nonce},
                        {"inputs", expected.inputs},
                        {"tensors", expected.input_tensors},
                        {"forward_seed", expected.forward_seed},
                        {"max_bytes", awaited + kPayloadSlack},
                        {"ghost", ghost},
                        {"fresh", trial == 1 || ghost}};
  Call call;
  const auto start = Clock::now();
  try {
    candidate_->send(request, {std::span(expected.payload).first(expected.input_bytes)}, "waiting for a trial");
    call.frame = candidate_->next(ghost ? "running without its kernels" : "running forward", awaited);
  } catch (const Ended& ended) {
    call.ended = ended;
    if (!ghost) call.compiled = compiled(nullptr);
    return call;
  }
  if (!ghost) call_s_ = seconds_since(start);
  read_answer(call.ended, [&] { read(call, trial, nonce); });
  if (call.ended || ghost) return call;
  call.compiled = compiled(&*call.report);
  return call;
}

void ProcessRunner::read(Call& call, size_t trial, const std::string& nonce) {
  const Json& header = call.frame.header;
  if (string_or(header, "result", "") != nonce)
    throw forged("a result without the trial's nonce: " + clipped(header.dump(), 200));
  call.report = report_of(header, trial);
  if (!call.report->subclass.empty()) return;
  call.result = call_result(header.at("outputs"), header, call.frame.payload);
  check_inputs(*call.result, *context_.reference.trials[trial]);
}

std::vector<Compiled> InterpretRunner::compiled(const Report*) {
  std::vector<Compiled> out;
  auto kernels = candidate_->take_kernels();
  const auto targets = names_of(context_.request.targets);
  std::erase_if(kernels, [&](const SentKernel& kernel) {
    return std::find(targets.begin(), targets.end(), kernel.target) == targets.end();
  });
  const Spent::Range compiling(context_.spent, Part::kCompiling);
  time_.paused([&] { out = lower(context_.lowering, context_.language, kernels, context_.overall); });
  return out;
}

std::vector<Compiled> LiveRunner::compiled(const Report* report) {
  if (report == nullptr || !report->launched) return {};
  return {{.target = "live", .error = ""}};
}

}  // namespace tritonforge::evaluate
