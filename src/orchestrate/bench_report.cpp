#include "orchestrate/bench_report.h"

#include <algorithm>
#include <set>

namespace tritonforge::orchestrate {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string cell(const std::string& text, const std::string& small = "") {
  return fmt::format("<td class=n>{}{}</td>", text, small.empty() ? "" : fmt::format(" <small>{}</small>", small));
}

std::string share_cell(const Estimate& share) {
  return cell(percent(share.value) + " %",
              fmt::format("[{}, {}]", percent(share.interval->low), percent(share.interval->high)));
}

std::string factor_cell(const std::optional<Estimate>& factor) {
  if (!factor) return "<td class=none>none timed</td>";
  const auto& interval = factor->interval;
  return cell(fmt::format("{:.2f} x", factor->value),
              interval ? fmt::format("[{:.2f}, {:.2f}]", interval->low, interval->high) : "no interval");
}

// <th> cells, then rows of cells that are HTML already.
std::string table(const std::vector<std::string>& heads, const std::string& rows) {
  std::string html = "<div class=scroll><table><thead><tr>";
  for (const std::string& head : heads) html += "<th>" + escape_html(head) + "</th>";
  return html + "</tr></thead><tbody>" + rows + "</tbody></table></div>\n";
}

std::string row_name(const FiguresRow& row) {
  const std::string turns = row.turns == 1 ? "1 turn" : fmt::format("{} turns, {}", row.turns, name_of(row.answer));
  return fmt::format("<td>{}</td><td>{}</td>", turns, escape_html(row.group));
}

std::string rates_table(const std::vector<FiguresRow>& rows) {
  std::vector<std::string> heads = {"answer", "problems", "judged", "failed (ours)", "compiles", "correct"};
  heads.insert(heads.begin() + 1, "group");
  std::set<int64_t> ks;
  for (const FiguresRow& row : rows) {
    for (const auto& [k, pass] : row.figures.pass_at) ks.insert(k);
  }
  for (const int64_t k : ks) heads.push_back(fmt::format("pass@{}", k));
  std::string body;
  for (const FiguresRow& row : rows) {
    const Figures& figures = row.figures;
    body += fmt::format("<tr{}>", row.group == "all" ? " class=all" : "") + row_name(row) +
            cell(std::to_string(figures.problems)) + cell(std::to_string(figures.samples)) +
            cell(std::to_string(figures.failed)) + share_cell(figures.compiled) + share_cell(figures.correct);
    for (const int64_t k : ks) {
      const auto pass = figures.pass_at.find(k);
      body += pass == figures.pass_at.end() ? "<td class=none>too few samples</td>" : share_cell(pass->second.estimate);
    }
    body += "</tr>\n";
  }
  return table(heads, body);
}

std::string speed_table(const std::vector<FiguresRow>& rows, std::optional<SpeedFigures> Figures::* baseline) {
  std::vector<std::string> heads = {"answer", "group", "timed", "geometric mean", "median"};
  for (const double p : kFastThresholds) heads.push_back(fmt::format("fast_{:g}", p));
  std::string body;
  for (const FiguresRow& row : rows) {
    const SpeedFigures& speed = *(row.figures.*baseline);
    body += fmt::format("<tr{}>", row.group == "all" ? " class=all" : "") + row_name(row) +
            cell(std::to_string(speed.timed)) + factor_cell(speed.geometric_mean) + factor_cell(speed.median);
    for (const double p : kFastThresholds) body += share_cell(speed.fast.at(p));
    body += "</tr>\n";
  }
  return table(heads, body);
}

std::string speed_section(const std::string& title, const std::string& why_not, const std::vector<FiguresRow>& rows,
                          std::optional<SpeedFigures> Figures::* baseline) {
  const std::string content = why_not.empty() ? speed_table(rows, baseline)
                                              : fmt::format("<p class=none>{}</p>\n", escape_html(why_not));
  return fmt::format("<h2>{}</h2>\n", title) + content;
}

std::string flat(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return value.dump();
  std::string text;
  for (const auto& [key, inner] : value.items())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", key, flat(inner));
  return text.empty() ? "none" : text;
}

std::string facts(const Json& object) {
  std::string html = "<dl>";
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape_html(name), escape_html(flat(value)));
  }
  return html + "</dl>\n";
}

std::string verdict_class(const Turn& turn) {
  if (turn.status == TurnStatus::kFailed) return "ours";
  if (turn.verdict.correct && !turn.verdict.cheated()) return "right";
  return turn.verdict.compiled ? "wrong" : "broken";
}

std::string verdict_words(const Turn& turn) {
  const Verdict& verdict = turn.verdict;
  if (turn.status == TurnStatus::kFailed) return fmt::format("failed through us: {}", name_of(verdict.fault));
  if (verdict.cheated()) return "rejected as a cheat";
  if (!verdict.correct) {
    return fmt::format("{}, {}", verdict.compiled ? "compiles" : "does not compile",
                       verdict.fault == Fault::kNone ? "not correct" : name_of(verdict.fault));
  }
  if (verdict.stage != Stage::kTimed) return "correct, not timed";
  std::string words = "correct";
  if (verdict.eager_speedup > 0) words += fmt::format(", {:.2f} x eager", verdict.eager_speedup);
  if (verdict.torch_compile_speedup > 0)
    words += fmt::format(", {:.2f} x torch.compile", verdict.torch_compile_speedup);
  return words;
}

std::string times_html(const Verdict& verdict) {
  std::string times = fmt::format("{:.4g} ms", verdict.runtime.median);
  if (verdict.eager_runtime.samples > 0) times += fmt::format(", eager {:.4g} ms", verdict.eager_runtime.median);
  if (verdict.torch_compile_runtime.samples > 0)
    times += fmt::format(", torch.compile {:.4g} ms", verdict.torch_compile_runtime.median);
  return fmt::format("<p>{} ({} calls each), on {}</p>\n", times, verdict.runtime.samples, escape_html(verdict.device));
}

std::string turn_html(const Turn& turn, size_t number, bool several) {
  const Verdict& verdict = turn.verdict;
  std::string html = several ? fmt::format("<h4>turn {}: <span class={}>{}</span></h4>\n", number, verdict_class(turn),
                                           escape_html(verdict_words(turn)))
                             : "";
  if (verdict.stage == Stage::kTimed) html += times_html(verdict);
  for (const Flag& flag : verdict.flags) {
    html += fmt::format("<p class={}>{} {}: {}</p>\n", flag.cheat() ? "broken" : "wrong",
                        flag.cheat() ? "cheat" : "doubt", name_of(flag.kind), escape_html(flag.evidence));
  }
  if (!verdict.diagnostics.empty()) html += "<pre class=said>" + escape_html(verdict.diagnostics) + "</pre>\n";
  if (!turn.code.empty()) html += "<pre>" + escape_html(turn.code) + "</pre>\n";
  else if (!turn.text.empty())
    html += "<p class=none>no code; the answer:</p><pre>" + escape_html(turn.text) + "</pre>\n";
  return html;
}

std::string sample_html(const Trajectory& sample, size_t number, int64_t budget) {
  if (sample.turns.empty()) return "";
  const auto best = answer_turn(outcome_of(sample), budget, Answer::kBest);
  const Turn& shown = best ? sample.turns[*best] : sample.turns.back();
  const bool several = sample.turns.size() > 1;
  std::string html = fmt::format(
      "<details><summary>sample {} <span class={}>{}</span>{}</summary>\n", number, verdict_class(shown),
      escape_html(verdict_words(shown)),
      several && best ? fmt::format(" <small>turn {} of {}</small>", *best + 1, sample.turns.size()) : "");
  for (size_t t = 0; t < sample.turns.size(); ++t) html += turn_html(sample.turns[t], t + 1, several);
  return html + "</details>\n";
}

std::string samples_section(const BenchResults& results) {
  const int64_t budget = *std::max_element(results.budgets.begin(), results.budgets.end());
  std::string html = "<h2>Samples</h2>\n";
  for (size_t i = 0; i < results.problems.size(); ++i) {
    const Problem& problem = results.problems[i];
    html += fmt::format("<section><h3>{} <small>{}</small></h3>\n", escape_html(problem.id),
                        escape_html(fmt::format("{}", fmt::join(problem.families, ", "))));
    html += "<details class=problem><summary>the problem</summary><pre>" + escape_html(problem.source) +
            "</pre></details>\n";
    for (size_t s = 0; s < results.samples[i].size(); ++s) html += sample_html(results.samples[i][s], s, budget);
    html += "</section>\n";
  }
  return html;
}

std::string failures_section(const BenchResults& results) {
  const Json failures = failures_of(results);
  std::string html = "<h2>Failures of ours</h2>\n";
  if (failures.empty()) return html + "<p class=none>None: every sample was judged.</p>\n";
  std::string rows;
  for (const Json& failure : failures) {
    rows += "<tr>";
    for (const char* key : {"problem_id", "sample", "turn", "error_kind", "reason"})
      rows += fmt::format("<td class=wrap>{}</td>", escape_html(flat(failure.at(key))));
    rows += "</tr>\n";
  }
  return html + "<p>They are in no rate above: nobody knows what the model would have scored.</p>\n" +
         table({"problem", "sample", "turn", "kind", "reason"}, rows);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      case '\'': html += "&#39;"; break;
      case '\0': html += "\xef\xbf\xbd"; break;
      default: html += c;
    }
  }
  return html;
}

std::string bench_report(const BenchResults& results, const std::vector<FiguresRow>& rows) {
  const Json figures = figures_json(results, {});
  const std::string title = escape_html(fmt::format("KBenchEval: {}", results.label));
  std::string html = "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n";
  html += "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";
  html += "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n";
  html += fmt::format("<title>{}</title>\n<style>\n{}</style></head><body>\n", title, web_bench_report_css);
  html += fmt::format("<h1>{}</h1>\n<p class=none>{}</p>\n", title, escape_html(results.model));
  html += "<h2>Rates</h2>\n" + rates_table(rows);
  html += fmt::format("<p class=none>In brackets: {}.</p>\n",
                      escape_html(figures.at("interval").get_ref<const std::string&>()));
  html += speed_section("Speed against eager PyTorch", no_eager_reason(results), rows, &Figures::eager);
  html += speed_section("Speed against torch.compile", no_torch_compile_reason(results), rows, &Figures::torch_compile);
  html +=
      "<p class=none>A sample's speedup is the lower bound of its 95 % interval. fast_p: the share of all judged "
      "samples that are correct and more than p times as fast as that baseline. No interval: of one problem, or of "
      "equal ones.</p>\n";
  html += "<h2>Sampling budget</h2>\n" + facts(figures.at("sampling_budget"));
  html += "<h2>Evaluation</h2>\n" + facts(figures.at("evaluation"));
  html += "<h2>Hardware</h2>\n" + facts(figures.at("hardware"));
  html += failures_section(results) + samples_section(results);
  return html + "</body></html>\n";
}

}  // namespace tritonforge::orchestrate
