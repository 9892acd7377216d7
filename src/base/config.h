#pragma once
// YAML <-> a struct that describes its options (base/options.h):
//
//   auto config = load_config<RecipeConfig>(yaml, "recipes/x.yaml");
//
// An unknown key throws kUsage naming the full path and the nearest known key; so does a value that is not allowed.
#include <yaml-cpp/yaml.h>

#include <string>

#include "base/error.h"
#include "base/options.h"

namespace tritonforge {

YAML::Node load_yaml_file(const std::string& path);  // kNotFound, kUsage with line
YAML::Node parse_yaml(const std::string& text, const std::string& where);
// `--set a.b=c`: sets the value at a dotted path (c is parsed as YAML). Throws kUsage where there is no '='. An empty
// document becomes a mapping.
void apply_override(YAML::Node& root, const std::string& assignment);

namespace detail {
void read_yaml(const YAML::Node& node, const std::string& where, const OptionList& list);
std::string write_yaml(const OptionList& list);
}  // namespace detail

// Binds `node` to a T with defaults where keys are absent. `where` begins error messages (a file name).
template <Described T>
T load_config(const YAML::Node& node, const std::string& where) {
  T config;
  detail::read_yaml(node, where, options_of(config));
  return config;
}

// The whole config with its defaults, as YAML: printed and stored beside every checkpoint.
template <Described T>
std::string dump_config(T config) {
  return detail::write_yaml(options_of(config));
}

}  // namespace tritonforge
