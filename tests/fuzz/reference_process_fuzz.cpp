// libs: tf_evaluate
// What a problem's own process says, as bytes: a reference, or the problem's fault.
#include "evaluate/reference_process.h"
#include "unit/evaluate/written_conversation.h"

namespace {

using namespace tritonforge;
using namespace tritonforge::evaluate;

// How it is asked.
enum class Asked { kKnown, kProbed, kSampled };

bool sound(const ReferenceData& data) {
  for (const auto& trial : data.trials) {
    if (trial->before.size() != trial->after.size() || trial->input_bytes > trial->payload.size()) return false;
    if (trial->bounds.size() != trial->outputs.size() || trial->aliases.size() != trial->outputs.size()) return false;
    for (const auto* views : {&trial->before, &trial->after, &trial->outputs}) {
      for (const TensorView& view : *views) compare(view, view, data.tolerances, "itself");
    }
  }
  return true;
}

bool made(Asked asked, const std::string& text) {
  const ReferenceData payload = written_reference();
  WrittenChildren children(text, payload);
  const auto child = children.spawn("reference", {}, Deadline::after(60));
  ReferenceSpec spec{.problem_id = "p", .source = "x", .trials = {{1, 2}}, .budget = kSmall, .weigh = true};
  if (asked != Asked::kProbed) spec.admission = Admission();
  if (asked != Asked::kSampled) return sound(*make_reference(*child, spec, Deadline::after(60)));
  ReferenceProcess process(*child, spec, Deadline::after(60));
  ReferenceData data;
  as_its_own([&] {
    process.load(data);
    if (const auto inputs = process.inputs(Draw::kAsGiven)) parse_plan(inputs->plan, inputs->payload);
    keep(process.sample({1, 2}, Draw::kAsGiven, {0}), {1, 2}, data);
  });
  return sound(data);
}

const std::string kLoaded = R"(0 {"init":{"list":[]},"tensors":[],"state":[],"sizes":{},"full":null})"
                            "\n";
const std::string kTensor = R"({"dtype":"float32","shape":[20],"order":[0],"bytes":80})";
const std::string kTrial =
    R"(240 {"inputs":{"list":[{"tensor":0}]},"input_tensors":1,"after_tensors":1,)"
    R"("outputs":{"tensor":2},"aliases":[false],"repeats":[false],"by_row":[true],"shared":[false],"tensors":[)" +
    kTensor + "," + kTensor + "," + kTensor + "]}\n";
const std::string kProbe = R"(240 {"runs":[["expected",1],["given",1],["other",1]],"idle":["relu"],"tensors":[)" +
                           kTensor + "," + kTensor + "," + kTensor + "]}\n";
const std::string kPlan = R"(0 {"plan":{"values":[{"dtype":"float32","shape":[20],"stride":[1],"input":0},)"
                          R"({"dtype":"float32","shape":[20],"stride":[1]}],"kernels":[],"steps":[{"aten":"aten::add",)"
                          R"("overload":"Scalar","args":[{"t":0},1],"kwargs":{},"out":[1]}],"outputs":{"tensor":1},)"
                          R"("inputs":1,"texts":[],"constants":[],"own_weights":[]}})"
                          "\n";
const std::string kCalls =
    R"(0 {"plan":{"calls":[{"aten":"aten::add","args":[{"t":0},{"t":0}],"kwargs":{},"out":[0]}],)"
    R"("values":[{"dtype":"float32","shape":[20],"stride":[1]}]}})"
    "\n";

std::string seed(Asked asked, const std::string& text) { return std::string(1, static_cast<char>(asked)) + text; }

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    return made(static_cast<Asked>(data[0] % 3), text) ? 0 : 1;
  } catch (const ProblemFault&) {
    return 0;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kUnsupported ? 0 : 1;
  }
}

std::vector<std::string> fuzz_seeds() {
  const std::string probes = kLoaded + kProbe + kProbe + kLoaded + kProbe;
  return {seed(Asked::kKnown, kLoaded + kTrial + kPlan), seed(Asked::kKnown, kLoaded + kTrial + "0 {}\n" + kCalls),
          seed(Asked::kProbed, probes + kLoaded + kTrial + kPlan), seed(Asked::kSampled, kLoaded + kPlan + kTrial)};
}
