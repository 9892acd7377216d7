#pragma once
// The page: web/* as it was at build time, and the same as one self-contained file.
#include <string>
#include <string_view>

#include "base/filesystem.h"
#include "base/json.h"

namespace tritonforge::dashboard {

extern const std::string_view web_index_html, web_style_css, web_basics_js, web_source_js, web_charts_js, web_live_js,
    web_timeline_js, web_trajectories_js, web_problems_js, web_runs_js, web_app_js;
// web/*.js in the order in which they use one another.
std::string_view page_script();
Json figure_help();  // {figure of steps.jsonl: what it is}

// What the page may do: its own scripts, styles and requests, nothing inline, nothing from elsewhere.
std::string content_security_policy();

// The page with style, script and `data` (RunFolder::snapshot) inside. Everything in `data`
// is inert whatever it holds; the script is allowed by its hash alone.
std::string self_contained_page(const Json& data);
// The same over a run's folder as it is now, with its newest trajectories; throws kNotFound.
std::string report_html(const fs::path& run, size_t trajectories = 100);

}  // namespace tritonforge::dashboard
