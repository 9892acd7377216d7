#pragma once
// What a run did, as spans: its steps with their parts, its trajectories, and each request to an engine or the
// evaluator. Made from what the run wrote down, so that nothing of it can slow a run or stop it.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dashboard/run_folder.h"
#include "net/http.h"

namespace tritonforge::dashboard {

struct Span {
  std::string trace_id, span_id, parent_id;  // as in the requests' traceparent headers (contract/trace_ids.h)
  std::string service, name;                 // service: orchestrator, trainer, buffer, engines, evaluator
  double begin = 0, end = 0;                 // Unix seconds
  std::vector<std::pair<std::string, std::string>> facts;
};

struct SpanCounts {
  size_t steps = 0, trajectories = 0, requests = 0;
  size_t without_times = 0;  // trajectories of a run whose buffer did not write down when their requests began
};

// Calls `take` with the spans of all steps and of the newest `trajectories`.
SpanCounts for_each_span(const RunFolder& run, size_t trajectories, const std::function<void(const Span&)>& take);

// The JSON of Chrome's trace viewer, which Perfetto (ui.perfetto.dev) reads: a process a service, spans that overlap
// on tracks of their own. Written as it is made.
SpanCounts write_perfetto(const RunFolder& run, size_t trajectories, const fs::path& file);

// POST `url`/v1/traces, OTLP's JSON over HTTP, at most 512 spans a request. Throws kUnavailable where the collector
// does not take one within `timeout_s`; the run knows nothing of it.
SpanCounts send_otlp(const RunFolder& run, size_t trajectories, const std::string& url, double timeout_s);

}  // namespace tritonforge::dashboard
