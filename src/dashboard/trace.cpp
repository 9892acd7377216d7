#include "dashboard/trace.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "contract/trace_ids.h"

namespace tritonforge::dashboard {
namespace {

constexpr std::array<const char*, 7> kTrainerParts = {"wait", "pack",     "scores", "forward",
                                                      "loss", "backward", "update"};

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// Spans of one trace, one after another.
class Row {
 public:
  Row(std::string trace_name, const std::function<void(const Span&)>& take)
      : name_(std::move(trace_name)), trace_id_(trace_id_of(name_)), take_(take) {}
  // Its id, for what is inside of it.
  std::string add(const std::string& id, const std::string& parent, const std::string& service, const std::string& name,
                  double begin, double end, std::vector<std::pair<std::string, std::string>> facts = {}) const {
    Span span{trace_id_, span_id_of(id), parent, service, name, begin, std::max(begin, end), std::move(facts)};
    take_(span);
    return span.span_id;
  }

 private:
  std::string name_, trace_id_;
  const std::function<void(const Span&)>& take_;
};

void add_steps(const std::string& stage, const Curves::Stage& curve, SpanCounts& counts,
               const std::function<void(const Span&)>& take) {
  const auto value = [&](const std::string& figure, size_t row) {
    const auto column = curve.columns.find(figure);
    return column == curve.columns.end() || !std::isfinite(column->second[row]) ? 0.0 : column->second[row];
  };
  for (size_t i = 0; i < curve.steps.size(); ++i) {
    const double end = value("time", i), seconds = value("seconds", i);
    if (end <= 0) continue;
    ++counts.steps;
    const std::string name = fmt::format("{} {}", stage, curve.steps[i]);
    const Row row(name, take);
    const std::string step = row.add(name, "", "orchestrator", name, end - seconds, end);
    double at = end - seconds, train = at;
    for (const char* part : {"collect", "train", "sync"}) {
      const double length = value(fmt::format("{}_s", part), i);
      if (std::string_view(part) == "train") train = at;
      if (length > 0) row.add(name + part, step, "orchestrator", part, at, at + length);
      at += length;
    }
    // Of all micro-batches: the parts alternate, here each is one piece.
    for (const char* part : kTrainerParts) {
      const double length = value(fmt::format("seconds_{}", part), i);
      if (length > 0)
        row.add(name + "trainer" + part, step, "trainer", part, train, train + length, {{"of", "all micro-batches"}});
      train += length;
    }
  }
}

void add_trajectory(const Json& trajectory, SpanCounts& counts, const std::function<void(const Span&)>& take) {
  const std::string id = trajectory.value("id", "");
  const Json turns = trajectory.value("turns", Json::array());
  double begin = 0, end = 0;
  for (const Json& turn : turns) {
    const double generate = number(turn, "generate_begun"), evaluate = number(turn, "evaluate_begun");
    if (begin == 0) begin = generate;
    end = std::max(
        {end, generate + number(turn, "generate_s"), evaluate > 0 ? evaluate + number(turn, "evaluate_s") : 0});
  }
  if (begin == 0) {
    ++counts.without_times;
    return;
  }
  ++counts.trajectories;
  const Row row(id, take);
  const std::string whole = row.add(id, "", "buffer", id, begin, end,
                                    {{"problem", trajectory.value("problem_id", "")},
                                     {"reward", fmt::format("{:.4g}", number(trajectory, "reward"))},
                                     {"step", fmt::format("{:.0f}", number(trajectory, "step"))}});
  for (size_t i = 0; i < turns.size(); ++i) {
    const Json& turn = turns[i];
    const std::string request = fmt::format("{}-{}", id, i);
    const Json verdict = turn.value("verdict", Json::object());
    // One id for both requests of a turn, as both carry it; the evaluator's span is told apart by a name of its own.
    const double generate = number(turn, "generate_begun"), evaluate = number(turn, "evaluate_begun");
    if (generate > 0) {
      ++counts.requests;
      row.add(request, whole, "engines", "generate " + request, generate, generate + number(turn, "generate_s"),
              {{"request", request}, {"status", turn.value("status", "")}});
    }
    if (evaluate > 0) {
      ++counts.requests;
      row.add(request + "/evaluate", whole, "evaluator", "evaluate " + request, evaluate,
              evaluate + number(turn, "evaluate_s"), {{"request", request}, {"stage", verdict.value("stage", "")}});
    }
  }
}

// The first track of a service that is free at `begin`, so that spans on one track never overlap but nest.
class Tracks {
 public:
  int of(const Span& span) {
    auto& ends = ends_[span.service];
    for (size_t track = 0; track < ends.size(); ++track) {
      if (ends[track] <= span.begin) {
        ends[track] = span.end;
        return static_cast<int>(track) + 1;
      }
    }
    ends.push_back(span.end);
    return static_cast<int>(ends.size());
  }

 private:
  std::map<std::string, std::vector<double>> ends_;
};

Json otlp_span(const Span& span) {
  Json attributes = Json::array();
  for (const auto& [key, text] : span.facts) attributes.push_back({{"key", key}, {"value", {{"stringValue", text}}}});
  const auto nanoseconds = [](double seconds) { return fmt::format("{:.0f}", seconds * 1e9); };
  Json json = {{"traceId", span.trace_id},
               {"spanId", span.span_id},
               {"name", span.name},
               {"kind", 1},  // SPAN_KIND_INTERNAL
               {"startTimeUnixNano", nanoseconds(span.begin)},
               {"endTimeUnixNano", nanoseconds(span.end)},
               {"attributes", attributes}};
  if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
  return json;
}

Json otlp_body(const std::string& run, const std::map<std::string, Json>& by_service) {
  Json resources = Json::array();
  for (const auto& [service, spans] : by_service) {
    const auto text = [](const char* key, const std::string& value) {
      return Json{{"key", key}, {"value", {{"stringValue", value}}}};
    };
    resources.push_back(
        {{"resource", {{"attributes", {text("service.name", "tritonforge-" + service), text("tritonforge.run", run)}}}},
         {"scopeSpans", {{{"scope", {{"name", "tritonforge"}}}, {"spans", spans}}}}});
  }
  return {{"resourceSpans", resources}};
}

}  // namespace

SpanCounts for_each_span(const RunFolder& run, size_t trajectories, const std::function<void(const Span&)>& take) {
  SpanCounts counts;
  for (const auto& [stage, curve] : run.curves().stages()) add_steps(stage, curve, counts, take);
  const size_t count = run.trajectories().size();
  for (size_t i = count - std::min(count, trajectories); i < count; ++i)
    add_trajectory(run.trajectories().at(i), counts, take);
  return counts;
}

SpanCounts write_perfetto(const RunFolder& run, size_t trajectories, const fs::path& file) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) fail(ErrorKind::kUnavailable, "cannot write {}: {}", file.string(), std::strerror(errno));
  static const std::vector<std::string> kServices = {"orchestrator", "trainer", "buffer", "engines", "evaluator"};
  Tracks tracks;
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* between = "\n";
  const auto write = [&](const Json& event) {
    out << between << event.dump(-1, ' ', false, Json::error_handler_t::replace);
    between = ",\n";
  };
  for (size_t i = 0; i < kServices.size(); ++i)
    write({{"ph", "M"}, {"name", "process_name"}, {"pid", i + 1}, {"tid", 0}, {"args", {{"name", kServices[i]}}}});
  const SpanCounts counts = for_each_span(run, trajectories, [&](const Span& span) {
    const auto pid = std::find(kServices.begin(), kServices.end(), span.service) - kServices.begin() + 1;
    // Parts of a step nest inside of it; what waits for a server has a track of its own.
    const bool nests = span.service == "orchestrator" || span.service == "trainer";
    Json facts = {{"trace_id", span.trace_id}, {"span_id", span.span_id}};
    for (const auto& [key, text] : span.facts) facts[key] = text;
    write({{"ph", "X"},
           {"name", span.name},
           {"cat", span.service},
           {"pid", pid},
           {"tid", nests ? 1 : tracks.of(span)},
           {"ts", std::round(span.begin * 1e6)},
           {"dur", std::round((span.end - span.begin) * 1e6)},
           {"args", std::move(facts)}});
  });
  out << "\n]}\n";
  out.flush();
  if (!out) fail(ErrorKind::kUnavailable, "{} could not be written whole: is the disk full?", file.string());
  return counts;
}

SpanCounts send_otlp(const RunFolder& run, size_t trajectories, const std::string& url, double timeout_s) {
  constexpr size_t kBatch = 512;
  const std::string target = url + (url.ends_with("/v1/traces") ? "" : "/v1/traces");
  const std::string name = run.status().value("run", run.path().filename().string());
  net::HttpClient client({.timeout_s = timeout_s});
  std::map<std::string, Json> waiting;
  size_t count = 0;
  const auto send = [&] {
    if (std::exchange(count, 0) == 0) return;
    client.post_json(target, otlp_body(name, std::exchange(waiting, {}))).value();
  };
  const SpanCounts counts = for_each_span(run, trajectories, [&](const Span& span) {
    waiting[span.service].push_back(otlp_span(span));
    if (++count == kBatch) send();
  });
  send();
  return counts;
}

}  // namespace tritonforge::dashboard
