#include "base/config.h"

#include <algorithm>

#include "base/filesystem.h"

namespace tritonforge {

YAML::Node parse_yaml(const std::string& text, const std::string& where) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    fail(ErrorKind::kUsage, "{}:{}: not valid YAML: {}", where, error.mark.line + 1, error.msg);
  }
}

YAML::Node load_yaml_file(const std::string& path) { return parse_yaml(read_file(path), path); }

void apply_override(YAML::Node& root, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(ErrorKind::kUsage, "--set {}: expected path=value, as in --set train.lr=1e-6", assignment);
  }
  const std::string path = assignment.substr(0, equals);
  YAML::Node value = parse_yaml(assignment.substr(equals + 1), "--set " + assignment);
  // The node of an empty document is not shared by its copies, so what is set on a copy would be lost.
  if (!root.IsDefined() || root.IsNull()) root = YAML::Node(YAML::NodeType::Map);
  YAML::Node node;
  node.reset(root);
  size_t start = 0;
  while (true) {
    const size_t dot = path.find('.', start);
    const std::string key = path.substr(start, dot == std::string::npos ? dot : dot - start);
    if (node.IsDefined() && !node.IsNull() && !node.IsMap()) {
      fail(ErrorKind::kUsage, "--set {}: '{}' is not a mapping", assignment, path.substr(0, start ? start - 1 : 0));
    }
    if (dot == std::string::npos) {
      node[key] = value;
      return;
    }
    YAML::Node child = node[key];
    node.reset(child);
    start = dot + 1;
  }
}

namespace detail {
namespace {

std::string shown(const YAML::Node& node) {
  YAML::Emitter out;
  out << YAML::Flow << node;
  return std::string(out.c_str()).substr(0, 60);
}

template <typename T>
void convert(const YAML::Node& node, const std::string& path, const char* expected, T& out) {
  if (!node.IsScalar() || !YAML::convert<T>::decode(node, out)) wrong_shape(node, path, expected);
}

}  // namespace

void wrong_shape(const YAML::Node& node, const std::string& path, const char* expected) {
  fail(ErrorKind::kUsage, "'{}' must be {}, not '{}'", path.empty() ? "the file" : path, expected, shown(node));
}

void unknown_key(const std::string& path, const std::string& key, const std::vector<std::string>& known) {
  fail(ErrorKind::kUsage, "unknown key '{}'{}", path.empty() ? key : path + "." + key, nearest_hint(key, known));
}

void read_scalar(const YAML::Node& node, const std::string& path, bool& out) {
  convert(node, path, "true or false", out);
}
void read_scalar(const YAML::Node& node, const std::string& path, int64_t& out) {
  convert(node, path, "an integer", out);
}
void read_scalar(const YAML::Node& node, const std::string& path, double& out) { convert(node, path, "a number", out); }
void read_scalar(const YAML::Node& node, const std::string& path, std::string& out) {
  convert(node, path, "a text", out);
}

}  // namespace detail
}  // namespace tritonforge
