#include "dashboard/page.h"

#include <openssl/evp.h>

#include <array>

#include "dashboard/run_folder.h"

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

std::string content_security_policy() {
  return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
         "form-action 'none'; frame-ancestors 'none'";
}

std::string self_contained_page(const Json& data) {
  std::string page(web_index_html);
  const std::string policy = fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action "
      "'none'",
      sha256_base64(web_app_js), sha256_base64(web_style_css));
  replace(page, "<link rel=\"stylesheet\" href=\"style.css\">",
          fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<style>{}</style>", policy,
                      web_style_css));
  replace(page, "<script src=\"app.js\" defer></script>",
          fmt::format("<script type=\"application/json\" id=\"inline-data\">{}</script>\n<script>{}</script>",
                      inert_json(data), web_app_js));
  return page;
}

std::string report_html(const fs::path& run, size_t trajectories) {
  if (!fs::exists(run / "recipe.yaml") && !fs::exists(run / "status.json"))
    fail(ErrorKind::kNotFound, "no run in {}: it has neither recipe.yaml nor status.json", run.string());
  RunFolder folder(run);
  folder.poll();
  return self_contained_page(folder.snapshot(trajectories));
}

}  // namespace tritonforge::dashboard
