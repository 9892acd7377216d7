#include "evaluate/in_its_process.h"

#include <algorithm>

#include "evaluate/process_runner.h"

namespace tritonforge::evaluate {
namespace {

void time(Means& means, Child& candidate, double call_s, const RunContext& context, const Posed& posed,
          const Client& client, Verdict& verdict) {
  const Spent::Range timing(client.spent, Part::kTiming);
  const auto samples = static_cast<int>(std::max<int64_t>(10, context.request.num_perf_trials));
  const std::stop_callback on_left(client.left, [&] { candidate.kill(); });
  try {
    means.problems.references().with_process(posed.key, posed.spec, posed.limits, client.deadline, [&](Child& process) {
      // An output of a timed call is fetched; nothing else has a payload.
      TimedChild theirs(process), ours(candidate, 2 * context.reference.trials.front()->payload.size() + kPayloadSlack);
      return measure({.reference = theirs,
                      .candidate = ours,
                      .data = context.reference,
                      .options = context.options,
                      .sandbox_library = means.zygote.options().sandbox_library,
                      .max_samples = samples,
                      .seed = random_bits(),
                      .limit_s = context.limit_s,
                      .call_s = call_s},
                     verdict);
    });
  } catch (const ProblemFault& fault) {
    verdict.fault = Fault::kProblemError;
    verdict.diagnostics = "the candidate is correct, but the reference could not be started again: " + fault.text;
  }
  check_waited_for(client.left);
}

}  // namespace

void judge_in_its_process(Means& means, const EvaluationRequest& request, EvaluationMode asked, Device* device,
                          const Client& client, Verdict& verdict) {
  const EvaluatorOptions options = options_for(asked, means.options);
  const Posed posed = means.problems.pose(options, request, asked, device, false, client, verdict);
  const RunContext context = means.context(posed, request, device, client);
  const Spent::Range running(client.spent, Part::kRunning);
  if (!options.on_gpu(asked)) {
    InterpretRunner runner(context);
    verdict = judge(runner, context, std::move(verdict));
    return;
  }
  LiveRunner runner(context);
  std::function<void(Verdict&)> timed;
  if (asked == EvaluationMode::kLive && request.measure_performance)
    timed = [&](Verdict& right) {
      runner.timed([&](Child& candidate) { time(means, candidate, runner.call_s(), context, posed, client, right); });
    };
  verdict = judge(runner, context, std::move(verdict), timed);
}

}  // namespace tritonforge::evaluate
