#include "base/config.h"

#include <set>

#include "base/filesystem.h"

namespace tritonforge {

namespace {

// YAML forbids it; its reader gives the first of them.
void refuse_repeated_keys(const YAML::Node& node, const std::string& where) {
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!node.IsMap()) {
      refuse_repeated_keys(entry, where);
      continue;
    }
    if (entry.first.IsScalar() && !seen.insert(entry.first.Scalar()).second)
      fail(ErrorKind::kUsage, "{}:{}: '{}' is given twice", where, entry.first.Mark().line + 1, entry.first.Scalar());
    refuse_repeated_keys(entry.second, where);
  }
}

}  // namespace

YAML::Node parse_yaml(const std::string& text, const std::string& where) {
  try {
    YAML::Node node = YAML::Load(text);
    refuse_repeated_keys(node, where);
    return node;
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

namespace {

class YamlSource : public OptionSource {
 public:
  explicit YamlSource(const YAML::Node& node) : node_(node) {}
  bool is_null() const override { return !node_ || node_.IsNull(); }
  bool null_is_default() const override { return false; }
  bool is_map() const override { return node_ && node_.IsMap(); }
  bool is_list() const override { return node_ && node_.IsSequence(); }
  std::vector<std::string> keys() const override {
    std::vector<std::string> keys;
    for (const auto& entry : node_)
      keys.push_back(entry.first.IsScalar() ? entry.first.Scalar() : YamlSource(entry.first).shown());
    return keys;
  }
  std::unique_ptr<OptionSource> find(const std::string& key) const override {
    const YAML::Node child = node_[key];
    return child ? std::make_unique<YamlSource>(child) : nullptr;
  }
  std::vector<std::unique_ptr<OptionSource>> entries() const override {
    std::vector<std::unique_ptr<OptionSource>> entries;
    for (const auto& entry : node_) entries.push_back(std::make_unique<YamlSource>(entry));
    return entries;
  }
  std::optional<OptionValue> value(OptionKind kind) const override {
    switch (kind) {
      case OptionKind::kBool: return decoded<bool>();
      case OptionKind::kInteger: return decoded<int64_t>();
      case OptionKind::kNumber: return decoded<double>();
      default: return decoded<std::string>();
    }
  }
  std::string shown() const override {
    YAML::Emitter out;
    out << YAML::Flow << node_;
    return std::string(out.c_str()).substr(0, 60);
  }

 private:
  template <typename T>
  std::optional<OptionValue> decoded() const {
    T value{};
    if (!node_.IsScalar() || !YAML::convert<T>::decode(node_, value)) return std::nullopt;
    return OptionValue(std::move(value));
  }
  const YAML::Node node_;  // const: looking a key up must not create it
};

void write(YAML::Emitter& out, const OptionList& list) {
  out << YAML::BeginMap;
  for (const Option& option : list.options()) {
    if (option.hidden) continue;
    out << YAML::Key << option.name << YAML::Value;
    if (option.kind == OptionKind::kSection) {
      write(out, *option.section);
      continue;
    }
    if (option.list) out << YAML::BeginSeq;
    for (const OptionValue& value : option.get()) {
      // A number as a person writes it: the emitter's own would be 0.050000000000000003.
      if (std::holds_alternative<double>(value)) out << text_of(value);
      else std::visit([&](const auto& held) { out << held; }, value);
    }
    if (option.list) out << YAML::EndSeq;
  }
  out << YAML::EndMap;
}

}  // namespace

namespace detail {

void read_yaml(const YAML::Node& node, const std::string& where, const OptionList& list) {
  try {
    read_options(YamlSource(node), list, "", "key");
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.what());
  }
}

std::string write_yaml(const OptionList& list) {
  YAML::Emitter out;
  write(out, list);
  return std::string(out.c_str()) + "\n";
}

}  // namespace detail
}  // namespace tritonforge
