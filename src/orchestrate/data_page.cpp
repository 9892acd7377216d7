#include "orchestrate/data_page.h"

#include <algorithm>

#include "orchestrate/bench_report.h"

namespace tritonforge::orchestrate {
namespace {

// Rows of name, count and a bar as long as the count's share of the largest.
std::string bars(const std::string& title, const std::vector<std::pair<std::string, int64_t>>& counts) {
  int64_t largest = 1;
  for (const auto& [name, count] : counts) largest = std::max(largest, count);
  std::string html = "<h2>" + escape_html(title) + "</h2>\n<div class=scroll><table><tbody>";
  for (const auto& [name, count] : counts) {
    html += fmt::format(
        "<tr><td>{}</td><td class=n>{}</td><td style='width:60%'><div style='background:var(--blue);"
        "height:10px;width:{:.1f}%'></div></td></tr>\n",
        escape_html(name.empty() ? "(none)" : name), count,
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
      "<h2>Stages</h2>\n<div class=scroll><table><thead><tr><th>stage</th><th>in</th><th>kept</th>"
      "<th>dropped, repaired</th></tr></thead><tbody>";
  for (const Json& stage : stages) {
    std::string reasons;
    for (const auto& [reason, count] : counts_of(stage["dropped"]))
      reasons += fmt::format("{} {}<br>", count, escape_html(reason));
    for (const auto& [what, count] : counts_of(stage["repaired"]))
      reasons += fmt::format("{} repaired: {}<br>", count, escape_html(what));
    html += fmt::format("<tr><td>{}</td><td class=n>{}</td><td class=n>{}</td><td>{}</td></tr>\n",
                        escape_html(stage["name"].get<std::string>()), stage["in"].get<int64_t>(),
                        stage["kept"].get<int64_t>(), reasons);
  }
  return html + "</tbody></table></div>\n";
}

std::string sample(const dataset::Row& row) {
  std::string html = fmt::format("<h3>{}</h3>\n", escape_html(row.uuid));
  for (const auto& [message, learned] : row.messages) {
    html += fmt::format("<h4>{}{}</h4>\n", escape_html(message.role), learned ? " (learned)" : "");
    if (!message.reasoning_content.empty())
      html += "<pre class=said>" + escape_html(message.reasoning_content) + "</pre>\n";
    html += "<pre>" + escape_html(message.content) + "</pre>\n";
  }
  return html;
}

}  // namespace

std::string data_page(const Json& card, const std::vector<dataset::Row>& samples) {
  const std::string name = escape_html(card["name"].get<std::string>());
  std::string html = "<!doctype html>\n<meta charset=utf-8>\n<title>" + name + "</title>\n<style>" +
                     std::string(web_bench_report_css) + "</style>\n<h1>" + name + "</h1>\n" +
                     stages_table(card["stages"]);
  for (const auto& [split, counts] : card["splits"].items()) {
    html += bars(fmt::format("Split {}: {} conversations, {} tokens, {} learned", split, counts["rows"].get<int64_t>(),
                             counts["tokens"].get<int64_t>(), counts["learned"].get<int64_t>()),
                 lengths_of(counts));
  }
  html += bars("Families", counts_of(card["families"])) + bars("Licences", counts_of(card["licences"])) +
          "<h2>Samples</h2>\n";
  for (const dataset::Row& row : samples) html += sample(row);
  return html;
}

}  // namespace tritonforge::orchestrate
