#pragma once
// Conversations with children that were written down: what each child says, without a process. Unit tests and fuzz
// targets run the evaluator's runners over them.
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sip_hash.h"
#include "evaluate/plan/runner.h"
#include "evaluate/process_runner.h"

namespace tritonforge::evaluate {

// y = x + `added` over 20 floats, one trial; where nothing is added x is zero, so that all bytes are the same.
inline ReferenceData written_reference(float added = 1) {
  constexpr int64_t kCount = 20;
  ReferenceData data;
  data.init = {{"list", Json::array()}};
  data.tensors = data.state = Json::array();
  data.sizes = Json::object();
  auto trial = std::make_unique<ReferenceTrial>();
  std::vector<float> values;
  for (const float offset : {0.0f, 0.0f, added}) {  // the input, after the call, the output
    for (int64_t i = 0; i < kCount; ++i) values.push_back(offset + (added == 0 ? 0 : static_cast<float>(i)));
  }
  trial->payload.resize(values.size() * sizeof(float));
  std::memcpy(trial->payload.data(), values.data(), trial->payload.size());
  const auto view = [&](size_t index) {
    return TensorView{Dtype::kFloat32, {kCount}, {0}, std::span(trial->payload).subspan(index * 80, 80)};
  };
  trial->before = {view(0)};
  trial->after = {view(1)};
  trial->outputs = {view(2)};
  trial->aliases = trial->repeats = trial->shared = {false};
  trial->inputs = {{"list", {{{"tensor", 0}}}}};
  trial->input_tensors = {{{"dtype", "float32"}, {"shape", {kCount}}, {"order", {0}}, {"bytes", 80}}};
  trial->output_tree = {{"tensor", 0}};
  trial->input_bytes = 80;
  data.trials.push_back(std::move(trial));
  data.work = ReferenceWork{.work = {.computing = 100}, .calls = {}, .products = {}};
  return data;
}

// A line is a frame: "160 {...}", the header behind the size of its payload, which are the trial's bytes from the
// input after the call on. The lines of one child end with "=".
class WrittenChildren : public Children {
 public:
  // `compilers`: what the children say that lower kernels, in the same form; further ones lower each.
  WrittenChildren(const std::string& text, const ReferenceData& reference, const std::string& compilers = "")
      : payload_(reference.trials[0]->payload), said_(children_of(text)) {
    if (!compilers.empty()) said_by_compilers_ = children_of(compilers);
  }
  ~WrittenChildren() override {
    for (const int end : ends_) ::close(end);
  }
  WrittenChildren(const WrittenChildren&) = delete;
  WrittenChildren& operator=(const WrittenChildren&) = delete;

  std::unique_ptr<Child> spawn(const std::string& role, const ChildLimits&, Deadline) override {
    const std::string frames = role == "lower" ? next(said_by_compilers_, compilers_, frame_of(R"(0 {"ok":true})"))
                                               : next(said_, spawned_, "");
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail(ErrorKind::kMachine, "socketpair");
    const int size = 4 << 20;
    ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (::send(ends[1], frames.data(), frames.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && !frames.empty())
      fail(ErrorKind::kMachine, "a written conversation of {} bytes", frames.size());
    ::shutdown(ends[1], SHUT_WR);
    ends_.push_back(ends[1]);  // open: what is sent to the child arrives
    return std::make_unique<Child>(ends[0]);
  }
  size_t compilers() const { return compilers_; }
  // All that they were sent, one after the other.
  std::string heard() const {
    std::string all;
    for (const int end : ends_) {
      char part[1 << 12];
      for (ssize_t got; (got = ::recv(end, part, sizeof part, MSG_DONTWAIT)) > 0;)
        all.append(part, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  static std::string next(const std::vector<std::string>& said, size_t& spawned, const std::string& beyond) {
    const size_t child = spawned++;
    return child < said.size() ? said[child] : beyond;
  }
  std::vector<std::string> children_of(const std::string& text) const {
    std::vector<std::string> children;
    std::string frames;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line(text.data() + at, end - at);
      at = end + 1;
      if (line == "=") children.push_back(std::exchange(frames, ""));
      else frames += frame_of(line);
    }
    children.push_back(frames);
    return children;
  }
  std::string frame_of(std::string_view line) const {
    const auto& bytes = payload_;
    uint64_t body = 0;
    const char* rest = std::from_chars(line.data(), line.data() + line.size(), body).ptr;
    const std::string header(rest, static_cast<size_t>(line.data() + line.size() - rest));
    const auto head = static_cast<uint32_t>(header.size());
    std::string frame(12, '\0');
    std::memcpy(frame.data(), &head, 4);
    std::memcpy(frame.data() + 4, &body, 8);
    frame += header;
    for (uint64_t i = 0; i < std::min<uint64_t>(body, 4096); ++i)
      frame += static_cast<char>(bytes[(80 + i) % bytes.size()]);
    return frame;
  }

  const std::vector<std::byte>& payload_;
  std::vector<std::string> said_, said_by_compilers_;
  std::vector<int> ends_;
  size_t spawned_ = 0, compilers_ = 0;
};

inline std::string nonce_of(uint64_t secret) { return fmt::format("{:016x}", sip_hash({secret, 0}, "nonce")); }

// One input, one output as the reference has them.
inline const std::string kWrittenTensors =
    R"("inputs":1,"aliases":[-1],"shared":[-1],"tensors":[{"dtype":"float32","shape":[20],"order":[0],"bytes":80},)"
    R"({"dtype":"float32","shape":[20],"order":[0],"bytes":80}])";

inline const std::string kWrittenLoad =
    "0 {\"stage\":\"parsed\",\"screen\":[]}\n0 {\"stage\":\"imported\"}\n0 {\"stage\":\"built\",\"own_weights\":[]}\n";

// What the process of an honest candidate says in interpret mode, under the secret 0.
inline std::string honest_process() {
  return kWrittenLoad + "16 {\"kernel\":\"k\",\"target\":\"sm_90\",\"options\":{\"num_warps\":4}}\n160 {\"result\":\"" +
         nonce_of(0) +
         R"(","outputs":{"tensor":0},"launches":1,"kernels":["k"],"swallowed":[],"tampered":[],)"
         R"("torch_ops":{"add":1},)" +
         kWrittenTensors + "}\n0 {\"failed\":{\"kind\":\"runtime_error\",\"text\":\"no kernel\"}}\n";
}

// And in plan mode: the recording process, then the replayer.
inline std::string honest_plan() {
  return kWrittenLoad +
         R"(16 {"plan":{"values":[{"dtype":"float32","shape":[20],"stride":[1],"input":0},{"dtype":"float32",)"
         R"("shape":[20],"stride":[1]}],"kernels":[{"name":"k","options":{"num_warps":4},"ir":{"sm_90":0},)"
         R"("errors":{}}],"steps":[{"aten":"aten::empty_like","overload":"","args":[{"t":0}],"kwargs":{},"out":[1]},)"
         R"({"launch":0,)"
         R"("grid":[1,1,1],"args":[{"t":0},{"t":1},{"i":20}]}],"outputs":{"tensor":1},"inputs":1,"texts":[16],)"
         R"("constants":[],"own_weights":[]}})"
         "\n=\n0 {\"loaded\":true}\n160 {\"findings\":[],\"own\":[100,0]," +
         kWrittenTensors + "}\n0 {\"failed\":{\"kind\":\"fault\",\"text\":\"nothing was written\"}}\n";
}

// Of a runner over them, under the secret 0.
inline RunContext written_context(Children& children, LoweringPool& lowering, const EvaluatorOptions& options,
                                  const EvaluationRequest& request, const ReferenceData& reference, Device& device) {
  return {.children = children,
          .lowering = lowering,
          .options = options,
          .request = request,
          .language = language_of(request.backend),
          .reference = reference,
          .init_seed = 1,
          .limit_s = 30,
          .overall = Deadline::after(60),
          .device = &device};
}

// The verdict of a runner over a written conversation; `mode` as an evaluator would set it.
inline Verdict judge_written(const std::string& text, EvaluationMode mode, Claims claims = Claims::kRefuse,
                             const std::function<void(Child&, Verdict&)>& time = {}) {
  const ReferenceData reference = written_reference();
  WrittenChildren children(text, reference);
  LoweringPool lowering(children);
  CpuDevice device(children, {});
  EvaluatorOptions options;
  options.claims = claims;
  options.candidate_timeout_s = 30;
  EvaluationRequest request;
  const RunContext context = written_context(children, lowering, options, request, reference, device);
  Verdict verdict;
  verdict.mode = mode;
  verdict.stage = Stage::kExtracted;
  if (mode == EvaluationMode::kPlan) {
    try {
      const auto why = judge_as_plan(context, verdict);
      verdict.notes["mode_reason"] = why ? why->reason : "";
    } catch (const DeviceFault& fault) {  // the pool would have it run again
      verdict.notes["mode_reason"] = fault.text;
    }
    return verdict;
  }
  if (mode == EvaluationMode::kLive) {
    LiveRunner runner(context);
    if (!time) return judge(runner, context, verdict);
    return judge(runner, context, verdict,
                 [&](Verdict& right) { runner.timed([&](Child& child) { time(child, right); }); });
  }
  InterpretRunner runner(context);
  return judge(runner, context, verdict);
}

}  // namespace tritonforge::evaluate
