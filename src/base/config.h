#pragma once
// YAML <-> plain structs. A config struct lists its fields once:
//
//   struct SftConfig {
//     double lr = 1e-5;
//     std::vector<std::string> families;
//     template <typename Visitor> void describe(Visitor& v) {
//       v("lr", lr, "peak learning rate");
//       v("families", families, "operator families to train on");
//     }
//     void validate() const;   // optional: throws kUsage naming the field
//   };
//   auto config = load_config<RecipeConfig>(yaml, "recipes/x.yaml");
//
// An unknown key throws kUsage naming the full path and the nearest known key.
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace tritonforge {

YAML::Node load_yaml_file(const std::string& path);  // kNotFound, kUsage with line
YAML::Node parse_yaml(const std::string& text, const std::string& where);
// `--set a.b=c`: sets the value at a dotted path (c is parsed as YAML). Throws kUsage where there is no '='. An empty
// document becomes a mapping.
void apply_override(YAML::Node& root, const std::string& assignment);

namespace detail {
void read_scalar(const YAML::Node& node, const std::string& path, bool& out);
void read_scalar(const YAML::Node& node, const std::string& path, int64_t& out);
void read_scalar(const YAML::Node& node, const std::string& path, double& out);
void read_scalar(const YAML::Node& node, const std::string& path, std::string& out);
[[noreturn]] void wrong_shape(const YAML::Node& node, const std::string& path, const char* expected);
[[noreturn]] void unknown_key(const std::string& path, const std::string& key, const std::vector<std::string>& known);

template <typename T>
concept Validated = requires(const T& t) { t.validate(); };

class ConfigReader {
 public:
  ConfigReader(YAML::Node node, std::string path) : node_(std::move(node)), path_(std::move(path)) {
    if (node_ && !node_.IsNull() && !node_.IsMap()) wrong_shape(node_, path_, "a mapping");
  }
  template <typename T>
  void operator()(const char* key, T& value, const char* /*doc*/) {
    known_.push_back(key);
    if (!node_ || !node_.IsMap()) return;
    const YAML::Node child = static_cast<const YAML::Node&>(node_)[key];
    if (child) read(child, path_.empty() ? key : path_ + "." + key, value);
  }
  void finish() const {
    if (!node_ || !node_.IsMap()) return;
    for (const auto& entry : node_) {
      const auto key = entry.first.as<std::string>();
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) unknown_key(path_, key, known_);
    }
  }
  static void read(const YAML::Node& node, const std::string& path, bool& out) { read_scalar(node, path, out); }
  static void read(const YAML::Node& node, const std::string& path, int64_t& out) { read_scalar(node, path, out); }
  static void read(const YAML::Node& node, const std::string& path, double& out) { read_scalar(node, path, out); }
  static void read(const YAML::Node& node, const std::string& path, std::string& out) { read_scalar(node, path, out); }
  template <typename T>
  static void read(const YAML::Node& node, const std::string& path, std::vector<T>& out) {
    if (!node.IsSequence()) wrong_shape(node, path, "a list");
    out.clear();
    for (size_t i = 0; i < node.size(); ++i) read(node[i], path + "[" + std::to_string(i) + "]", out.emplace_back());
  }
  template <typename T>
  static void read(const YAML::Node& node, const std::string& path, std::map<std::string, T>& out) {
    if (!node.IsMap()) wrong_shape(node, path, "a mapping");
    out.clear();
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      read(entry.second, path + "." + key, out[key]);
    }
  }
  template <typename T>
    requires requires(T& t, ConfigReader& reader) { t.describe(reader); }
  static void read(const YAML::Node& node, const std::string& path, T& out) {
    ConfigReader reader(node, path);
    out.describe(reader);
    reader.finish();
    if constexpr (Validated<T>) out.validate();
  }

 private:
  YAML::Node node_;
  std::string path_;
  std::vector<std::string> known_;
};

class ConfigWriter {
 public:
  explicit ConfigWriter(YAML::Emitter& out) : out_(out) {}
  template <typename T>
  void operator()(const char* key, T& value, const char* /*doc*/) {
    out_ << YAML::Key << key << YAML::Value;
    write(value);
  }
  void write(bool value) { out_ << value; }
  void write(int64_t value) { out_ << value; }
  void write(double value) { out_ << value; }
  void write(const std::string& value) { out_ << value; }
  template <typename T>
  void write(std::vector<T>& values) {
    out_ << YAML::BeginSeq;
    for (auto& value : values) write(value);
    out_ << YAML::EndSeq;
  }
  template <typename T>
  void write(std::map<std::string, T>& values) {
    out_ << YAML::BeginMap;
    for (auto& [key, value] : values) {
      out_ << YAML::Key << key << YAML::Value;
      write(value);
    }
    out_ << YAML::EndMap;
  }
  template <typename T>
    requires requires(T& t, ConfigWriter& writer) { t.describe(writer); }
  void write(T& value) {
    out_ << YAML::BeginMap;
    value.describe(*this);
    out_ << YAML::EndMap;
  }

 private:
  YAML::Emitter& out_;
};
}  // namespace detail

// Binds `node` to a T with defaults where keys are absent. `where` begins error messages (a file name).
template <typename T>
T load_config(const YAML::Node& node, const std::string& where) {
  T config;
  try {
    detail::ConfigReader::read(node, "", config);
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.what());
  }
  return config;
}

// The whole config with its defaults, as YAML: printed and stored beside every checkpoint.
template <typename T>
std::string dump_config(T config) {
  YAML::Emitter out;
  detail::ConfigWriter writer(out);
  writer.write(config);
  return std::string(out.c_str()) + "\n";
}

}  // namespace tritonforge
