#include "orchestrate/data_page.h"

#include <algorithm>

#include "orchestrate/bench_report.h"

namespace tritonforge::orchestrate {
namespace {

// 12,177,390: easier to read than to count.
std::string grouped(int64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

// Rows of name, count and a bar as long as the count's share of the largest.
std::string bars(const std::string& title, const std::vector<std::pair<std::string, int64_t>>& counts) {
  int64_t largest = 1;
  for (const auto& [name, count] : counts) largest = std::max(largest, count);
  std::string html = "<h2>" + escape_html(title) + "</h2>\n<div class=scroll><table><tbody>";
  for (const auto& [name, count] : counts) {
    html += fmt::format("<tr><td>{}</td><td class=n>{}</td><td class=bar><div style='width:{:.1f}%'></div></td></tr>\n",
                        escape_html(name.empty() ? "(none)" : name), grouped(count),
                        100.0 * static_cast<double>(count) / static_cast<double>(largest));
  }
  return html + "</tbody></table></div>\n";
}

std::vector<std::pair<std::string, int64_t>> counts_of(const Json& object) {
  std::vector<std::pair<std::string, int64_t>> counts;
  for (const auto& [name, count] : object.items()) counts.emplace_back(name, count.get<int64_t>());
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return counts;
}

std::vector<std::pair<std::string, int64_t>> lengths_of(const Json& split) {
  std::vector<std::pair<std::string, int64_t>> counts;
  for (uint64_t from = 1; from < (uint64_t{1} << 32); from *= 2) {
    const std::string key = std::to_string(from);
    if (split["lengths"].contains(key))
      counts.emplace_back(fmt::format("{} to {} tokens", from, 2 * from - 1), split["lengths"][key].get<int64_t>());
  }
  return counts;
}

std::string stages_table(const Json& stages) {
  std::string html =
      "<h2>Stages</h2>\n<div class=scroll><table><thead><tr><th>stage</th><th class=n>in</th><th class=n>kept</th>"
      "<th>dropped, repaired</th></tr></thead><tbody>";
  for (const Json& stage : stages) {
    std::string reasons;
    for (const auto& [reason, count] : counts_of(stage["dropped"]))
      reasons += fmt::format("{} {}<br>", grouped(count), escape_html(reason));
    for (const auto& [what, count] : counts_of(stage["repaired"]))
      reasons += fmt::format("{} repaired: {}<br>", grouped(count), escape_html(what));
    html += fmt::format("<tr><td>{}</td><td class=n>{}</td><td class=n>{}</td><td class=reasons>{}</td></tr>\n",
                        escape_html(stage["name"].get<std::string>()), grouped(stage["in"].get<int64_t>()),
                        grouped(stage["kept"].get<int64_t>()), reasons);
  }
  return html + "</tbody></table></div>\n";
}

// Closed at first: a conversation is pages long.
std::string sample(const dataset::Row& row) {
  std::string html = fmt::format("<section><details><summary>{} ({} messages)</summary>\n", escape_html(row.uuid),
                                 row.messages.size());
  for (const auto& [message, learned] : row.messages) {
    html += fmt::format("<h4>{}{}</h4>\n", escape_html(message.role), learned ? " (learned)" : "");
    if (!message.reasoning_content.empty())
      html += "<pre class=said>" + escape_html(message.reasoning_content) + "</pre>\n";
    html += "<pre>" + escape_html(message.content) + "</pre>\n";
  }
  return html + "</details></section>\n";
}

std::string checksums_table(const Json& card) {
  std::string html = "<h2>Checksums (XXH3-128)</h2>\n<div class=scroll><table><tbody>";
  for (const char* side : {"inputs", "outputs"}) {
    for (const auto& [file, sum] : card[side].items()) {
      html += fmt::format("<tr><td>{}</td><td><code>{}</code></td></tr>\n", escape_html(file),
                          escape_html(sum.get<std::string>()));
    }
  }
  return html + "</tbody></table></div>\n";
}

constexpr std::string_view kStyle =
    "td.n, th.n { text-align: right; } td.bar { width: 60%; } td.bar div { background: var(--blue); height: 10px; "
    "border-radius: 2px; min-width: 1px; } td.reasons { white-space: normal; min-width: 160px; }";

}  // namespace

std::string data_page(const Json& card, const std::vector<dataset::Row>& samples) {
  const std::string name = escape_html(card["name"].get<std::string>());
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<meta name=viewport "
      "content='width=device-width'>\n<title>{0}</title>\n<style>{1}{2}</style>\n<h1>{0}</h1>\n",
      name, web_bench_report_css, kStyle);
  const Json& stages = card["stages"];
  if (!stages.empty()) {
    html += fmt::format("<p>{} of {} rows kept, seed {}</p>\n", grouped(stages.back()["kept"].get<int64_t>()),
                        grouped(stages.front()["in"].get<int64_t>()), card["seed"].dump());
  }
  html += stages_table(stages);
  for (const auto& [split, counts] : card["splits"].items()) {
    html += bars(
        fmt::format("Split {}: {} conversations, {} tokens, {} learned", split, grouped(counts["rows"].get<int64_t>()),
                    grouped(counts["tokens"].get<int64_t>()), grouped(counts["learned"].get<int64_t>())),
        lengths_of(counts));
  }
  html += bars("Families", counts_of(card["families"])) + bars("Licences", counts_of(card["licences"])) +
          checksums_table(card) + "<h2>Samples</h2>\n";
  for (const dataset::Row& row : samples) html += sample(row);
  return html;
}

}  // namespace tritonforge::orchestrate
