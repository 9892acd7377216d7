#pragma once
// tritonforge data build | show
#include <CLI/CLI.hpp>

namespace tritonforge::cli {

void add_data_build_command(CLI::App& data);
void add_data_show_command(CLI::App& data);
// The card of a built data set, as text or JSON: what `data stats` shows of a folder. `page`: a
// file for the same as a page, with the first rows of its JSON lines.
void print_card(const std::string& folder, bool json, const std::string& page = "");

}  // namespace tritonforge::cli
