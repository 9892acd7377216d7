#include "evaluate/trial.h"

#include <algorithm>

#include "base/text.h"

namespace tritonforge::evaluate {

std::string clipped(const std::string& text, size_t size) {
  return text.size() <= size ? text : text.substr(0, character_start(text, size)) + "...";
}

std::vector<std::string> strings_of(const Json& object, const char* key) {
  constexpr size_t kMost = 256, kText = 500;
  std::vector<std::string> out;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return out;
  for (const auto& item : *found) {
    if (out.size() == kMost) break;
    if (item.is_string()) out.push_back(clipped(item.get<std::string>(), kText));
  }
  return out;
}

void add_diagnostics(Verdict& verdict, const std::string& line) {
  constexpr size_t kMost = 4000;
  std::string& text = verdict.diagnostics;
  if (!text.empty()) text += '\n';
  text += line;
  text = clipped(text, kMost);
}

void add_flag(Verdict& verdict, Cheat kind, const std::string& evidence) {
  for (const Flag& known : verdict.flags) {
    if (known.kind == kind) return;
  }
  verdict.flags.push_back({kind, evidence});
  if (!is_doubt(kind)) add_diagnostics(verdict, fmt::format("[{}] {}", name_of(kind), evidence));
}

std::vector<Flag> screen_of(const Json& parsed) {
  std::vector<Flag> doubts;
  for (const auto& item : parsed.value("screen", Json::array())) {
    const auto kind = from_name<Cheat>(item.at(0).get<std::string>(), "flag");
    TF_CHECK(is_doubt(kind), "the screen decides nothing, and sends {}", item.dump());
    doubts.push_back({kind, item.at(1).get<std::string>()});
  }
  return doubts;
}

void bound(Verdict& verdict) {
  constexpr size_t kMostItems = 256, kDiagnostics = 4100, kText = 1000, kName = 200;
  const auto cut = [](std::string& text, size_t most) { text = clipped(text, most); };
  cut(verdict.diagnostics, kDiagnostics);
  cut(verdict.device, kName);
  for (Flag& flag : verdict.flags) cut(flag.evidence, kText);
  for (Trial& trial : verdict.trials) cut(trial.mismatch, kText);
  if (verdict.kernels.size() > kMostItems) verdict.kernels.resize(kMostItems);
  for (std::string& name : verdict.kernels) cut(name, kName);
  if (verdict.profile) {
    if (verdict.profile->kernels.size() > kMostItems) verdict.profile->kernels.resize(kMostItems);
    for (KernelProfile& kernel : verdict.profile->kernels) cut(kernel.name, kName);
  }
  if (verdict.counters.size() > kMostItems) verdict.counters.resize(kMostItems);
  for (KernelCounters& kernel : verdict.counters) cut(kernel.name, kName);
  for (auto* texts : {&verdict.notes, &verdict.compile_targets}) {
    std::erase_if(*texts, [](const auto& item) { return item.first.size() > kName; });
    while (texts->size() > kMostItems) texts->erase(std::prev(texts->end()));
    for (auto& [key, text] : *texts) cut(text, kText);
  }
}

CallResult call_result(const Json& outputs, const Json& header, std::span<const std::byte> payload) {
  return {.outputs = outputs,
          .tensors = parse_tensors(header.at("tensors"), payload),
          .inputs = header.at("inputs").get<size_t>(),
          .aliases = header.at("aliases").get<std::vector<int64_t>>(),
          .repeats = {},
          .by_row = {},
          .shared = {}};
}

void check_inputs(const CallResult& call, const ReferenceTrial& expected) {
  if (call.inputs != expected.after.size() || call.inputs > call.tensors.size())
    fail(ErrorKind::kCorrupt, "a result with {} inputs", call.inputs);
}

namespace {

void add(const Comparison& result, Trial& trial) {
  trial.max_abs_error = std::max(trial.max_abs_error, result.max_abs_error);
  trial.max_rel_error = std::max(trial.max_rel_error, result.max_rel_error);
  trial.passed = trial.passed && result.passed;
  if (!result.passed && trial.mismatch.empty()) trial.mismatch = result.mismatch;
}

// A tree of outputs as one would say it: a tuple (a tensor, None). It may be anything.
std::string in_words(const Json& tree) {
  if (!tree.is_object() || tree.size() != 1) return tree.dump();
  const auto only = tree.begin();
  const std::string& kind = only.key();
  if (kind == "tensor") return "a tensor";
  if (only->is_null()) return "None";
  if (!only->is_array()) return kind == "float" && only->is_string() ? only->get<std::string>() : only->dump();
  const bool pairs = kind == "dict" || kind == "record";
  std::vector<std::string> items;
  for (const Json& item : *only) {
    const bool pair = pairs && item.is_array() && item.size() == 2;
    items.push_back(pair ? in_words(item[0]) + ": " + in_words(item[1]) : in_words(item));
  }
  const std::string all = fmt::format("{}", fmt::join(items, ", "));
  if (pairs) return fmt::format("a dict {{{}}}", all);
  return kind == "list" ? fmt::format("a list [{}]", all) : fmt::format("a {} ({})", kind, all);
}

// One that the reference leaves alone keeps its bits; what it writes into is a result like its outputs.
void judge_input(const CallResult& call, const WholeCall* whole, const ReferenceTrial& expected, size_t i,
                 const Tolerances& tolerances, Verdict& verdict, Trial& trial) {
  const TensorView &left = call.tensors[i], &before = expected.before[i], &after = expected.after[i];
  if (identical(left, after) && (!whole || whole->inputs.at(i).same)) return;
  if (identical(before, after))
    return add_flag(verdict, Cheat::kInputMutated, fmt::format("input {} was changed by the call", i));
  if (identical(left, before)) {
    return add_flag(verdict, Cheat::kInputMutated,
                    fmt::format("input {} is left as it was, which the reference changes", i));
  }
  if (whole) add(whole->inputs.at(i).compared, trial);
  add(compare(left, after, tolerances, fmt::format("input {}, after the call,", i)), trial);
}

}  // namespace

void judge_call(const CallResult& call, const WholeCall* whole, const ReferenceTrial& expected, size_t index,
                const Tolerances& tolerances, Verdict& verdict, bool& constant) {
  check_inputs(call, expected);
  const auto& [outputs, tensors, inputs, aliases, repeats, by_row, shared] = call;
  Trial trial{.seed = expected.seed, .passed = true};
  for (size_t i = 0; i < inputs; ++i) judge_input(call, whole, expected, i, tolerances, verdict, trial);
  const Json shape = shape_of_tree(outputs), wanted = shape_of_tree(expected.output_tree);
  if (shape != wanted || tensors.size() - inputs != expected.outputs.size() ||
      aliases.size() != expected.outputs.size()) {
    trial.passed = false;
    trial.mismatch = fmt::format("forward returned {}, where Model returns {}", clipped(in_words(outputs), 200),
                                 clipped(in_words(expected.output_tree), 200));
  } else {
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      if (aliases[i] >= 0 && !expected.aliases[i])
        add_flag(verdict, Cheat::kOutputIsInput, fmt::format("output {} is the memory of input {}", i, aliases[i]));
      if (i < repeats.size() && repeats[i] && !expected.repeats[i])
        add_flag(
            verdict, Cheat::kLazyOutput,
            fmt::format("output {} shows one element of memory at several places, where the reference writes each", i));
      if (i < shared.size() && shared[i] >= 0 && !expected.shared[i])
        add_flag(verdict, Cheat::kLazyOutput,
                 fmt::format("output {} shows the memory of output {}, where the reference writes each", i, shared[i]));
      const Comparison result = compare(tensors[inputs + i], expected.outputs[i], tolerances,
                                        fmt::format("output {}{}", i, whole ? ", of the sampled elements," : ""));
      constant = constant && result.constant;
      if (whole) add(whole->outputs.at(i), trial);  // its place is one in the tensor
      add(result, trial);
    }
  }
  if (!trial.passed) {
    verdict.fault = Fault::kMismatch;
    add_diagnostics(verdict, fmt::format("trial {}: {}", index, trial.mismatch));
    if (trial.mismatch.find(": nan, expected ") != std::string::npos) {
      add_diagnostics(verdict,
                      "memory that no kernel wrote to is nan, too: does the grid cover the whole output, and is each "
                      "element stored?");
    }
    if (const auto own = verdict.notes.find("own_weights"); own != verdict.notes.end()) {
      add_diagnostics(verdict, fmt::format("ModelNew's weights are set to those of Model, by name or by order and "
                                           "shape; these have none: {}",
                                           own->second));
    }
  }
  verdict.trials.push_back(std::move(trial));
}

bool same_outputs(const CallResult& call, const WholeCall* whole, const ReferenceTrial& expected,
                  const Tolerances& tolerances) {
  if (call.inputs > call.tensors.size() || call.tensors.size() - call.inputs != expected.outputs.size()) return false;
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    if (!compare(call.tensors[call.inputs + i], expected.outputs[i], tolerances, "output").passed) return false;
    if (whole && !whole->outputs.at(i).passed) return false;
  }
  return true;
}

}  // namespace tritonforge::evaluate
