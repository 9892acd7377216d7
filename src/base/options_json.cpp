#include "base/options_json.h"

#include <cmath>

namespace tritonforge {
namespace {

class JsonSource : public OptionSource {
 public:
  explicit JsonSource(const Json& json) : json_(json) {}
  bool is_null() const override { return json_.is_null(); }
  bool null_is_default() const override { return true; }
  bool is_map() const override { return json_.is_object(); }
  bool is_list() const override { return json_.is_array(); }
  std::vector<std::string> keys() const override {
    std::vector<std::string> keys;
    for (const auto& entry : json_.items()) keys.push_back(entry.key());
    return keys;
  }
  std::unique_ptr<OptionSource> find(const std::string& key) const override {
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : std::make_unique<JsonSource>(*found);
  }
  std::vector<std::unique_ptr<OptionSource>> entries() const override {
    std::vector<std::unique_ptr<OptionSource>> entries;
    for (const Json& entry : json_) entries.push_back(std::make_unique<JsonSource>(entry));
    return entries;
  }
  std::optional<OptionValue> value(OptionKind kind) const override {
    switch (kind) {
      case OptionKind::kBool:
        if (json_.is_boolean()) return json_.get<bool>();
        break;
      case OptionKind::kInteger:
        // 2^63 and more are unsigned in JSON's reader and no int64.
        if (json_.is_number_unsigned() && json_.get<uint64_t>() > INT64_MAX) break;
        if (json_.is_number_integer()) return json_.get<int64_t>();
        break;
      case OptionKind::kNumber:
        if (json_.is_number()) return json_.get<double>();
        break;
      default:
        if (json_.is_string()) return json_.get<std::string>();
    }
    return std::nullopt;
  }
  std::string shown() const override {
    return json_.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
  }

 private:
  const Json& json_;
};

}  // namespace

namespace detail {

void read_json(const Json& json, const std::string& where, const OptionList& list) {
  try {
    read_options(JsonSource(json), list, "", "field");
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.what());
  }
}

Json write_json(const OptionList& list) {
  Json json = Json::object();
  for (const Option& option : list.options()) {
    if (option.hidden) continue;
    Json& field = json[option.name];
    if (option.kind == OptionKind::kSection) {
      field = write_json(*option.section);
      continue;
    }
    Json values = Json::array();
    for (const OptionValue& value : option.get()) std::visit([&](const auto& held) { values.push_back(held); }, value);
    field = option.list ? std::move(values) : std::move(values[0]);
  }
  return json;
}

}  // namespace detail
}  // namespace tritonforge
