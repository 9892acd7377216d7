#include "dashboard/page.h"

#include <openssl/evp.h>

#include <array>

#include "dashboard/run_folder.h"
#include "tracking/figures.h"

namespace tritonforge::dashboard {
namespace {

std::string sha256_base64(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  TF_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1, "SHA-256 failed");
  std::array<unsigned char, 48> encoded{};
  const int length = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(size));
  return {reinterpret_cast<const char*>(encoded.data()), static_cast<size_t>(length)};
}

void replace(std::string& text, std::string_view mark, std::string_view with) {
  const size_t at = text.find(mark);
  TF_CHECK(at != std::string::npos, "web/index.html lacks '{}'", mark);
  text.replace(at, mark.size(), with);
}

// Inside <script> only "</" and "<!--" end or change the parse; no '<' is left at all.
std::string inert_json(const Json& data) {
  const std::string plain = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(plain.size());
  for (const char c : plain) {
    if (c == '<') out += "\\u003c";
    else if (c == '>') out += "\\u003e";
    else if (c == '&') out += "\\u0026";
    else out += c;
  }
  return out;
}

}  // namespace

Json figure_help() {
  Json help = Json::object();
  for (const tracking::FigureName& name : tracking::figure_names()) {
    if (!name.figure.empty()) help[std::string(name.figure)] = name.help;
  }
  return help;
}

std::string_view page_script() {
  static const std::string script = [] {
    std::string all;
    for (const auto part : {web_basics_js, web_source_js, web_charts_js, web_live_js, web_timeline_js,
                            web_trajectories_js, web_problems_js, web_runs_js, web_app_js})
      all += part;
    return all;
  }();
  return script;
}

std::string content_security_policy() {
  return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
         "form-action 'none'; frame-ancestors 'none'";
}

std::string self_contained_page(const Json& data) {
  std::string page(web_index_html);
  const std::string policy = fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action "
      "'none'",
      sha256_base64(page_script()), sha256_base64(web_style_css));
  replace(page, "<link rel=\"stylesheet\" href=\"style.css\">",
          fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<style>{}</style>", policy,
                      web_style_css));
  replace(page, "<script src=\"app.js\" defer></script>",
          fmt::format("<script type=\"application/json\" id=\"inline-data\">{}</script>\n<script>{}</script>",
                      inert_json(data), page_script()));
  return page;
}

std::string report_html(const fs::path& run, size_t trajectories) {
  require_run(run);
  RunFolder folder(run);
  while (folder.poll().more) {}
  Json data = folder.snapshot(trajectories);
  data["figures"] = figure_help();
  return self_contained_page(data);
}

}  // namespace tritonforge::dashboard
