#include "cli/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/build.h"
#include "base/config.h"
#include "base/text.h"
#include "contract/rollout.h"
#include "contract/schema.h"
#include "contract/step.h"

namespace tritonforge::cli {
namespace {

constexpr std::string_view kEnd = ".yaml", kCommon = "common";

YAML::Node api_file(std::string_view role) {
  for (const auto& [name, text] : api_files) {
    if (name == std::string(role) + std::string(kEnd)) return parse_yaml(std::string(text), std::string(name));
  }
  fail(ErrorKind::kCorrupt, "api/{}{} is not part of the program", role, kEnd);
}

// ---- Types that the code describes itself ----

Json option_schema(const Option& option) {
  Json one;
  switch (option.kind) {
    case OptionKind::kBool: one = {{"type", "boolean"}}; break;
    case OptionKind::kInteger: one = {{"type", "integer"}}; break;
    case OptionKind::kNumber: one = {{"type", "number"}}; break;
    case OptionKind::kText: one = {{"type", "string"}}; break;
    case OptionKind::kSection: break;
  }
  if (option.low) one[option.low->inclusive ? "minimum" : "exclusiveMinimum"] = option.low->value;
  if (option.high) one[option.high->inclusive ? "maximum" : "exclusiveMaximum"] = option.high->value;
  if (!option.names.empty()) one["enum"] = option.names;
  return option.list ? Json{{"type", "array"}, {"items", one}} : one;
}

Json options_schema(const OptionList& list) {
  Json properties = Json::object();
  for (const Option& option : list.options()) {
    Json& schema = properties[option.name];
    if (option.kind == OptionKind::kSection) {
      schema = options_schema(*option.section);
    } else {
      schema = option_schema(option);
      Json values = Json::array();
      for (const OptionValue& value : option.get())
        std::visit([&](const auto& held) { values.push_back(held); }, value);
      schema["default"] = option.list ? values : values.at(0);
    }
    schema["description"] = option.help;
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

template <Described T>
Json options_schema_of() {
  T options;
  return options_schema(options_of(options));
}

// Of one step's figures, or with what went with it (to_json of StepMetrics, StepResult).
Json step_schema(bool result) {
  StepMetrics metrics;
  metrics.policy.emplace();
  metrics.batch.emplace();
  Json properties = {{"step", {{"type", "integer"}}}, {"kind", {{"enum", names_of(StepKind{})}}}};
  for_each_figure(metrics, [&](const char* name, double) { properties[name] = {{"type", {"number", "null"}}}; });
  if (result) {
    properties.update({{"checkpoint", {{"type", "string"}}},
                       {"checkpoint_error", {{"type", "string"}}},
                       {"repeated", {{"type", "boolean"}}},
                       {"ahead", {{"type", "boolean"}}},
                       {"set_aside", {{"type", "array"}, {"items", {{"type", "string"}}}}}});
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", {"step", "kind", "loss", "seconds"}}};
}

// The definitions of a schema document, where an OpenAPI document has them.
void add_definitions(Json& schemas, const Json& document) {
  constexpr std::string_view kThere = "#/$defs/", kHere = "#/components/schemas/";
  std::string text = document.at("$defs").dump();
  for (size_t at = 0; (at = text.find(kThere, at)) != std::string::npos; at += kHere.size())
    text.replace(at, kThere.size(), kHere);
  schemas.update(parse_json(text, "a schema"));
}

bool add_from_code(Json& schemas, const std::string& name) {
  if (name == "Verdict") add_definitions(schemas, verdict_schema());
  else if (name == "Trajectory" || name == "Turn") add_definitions(schemas, trajectory_schema());
  else if (name == "StepMetrics") schemas[name] = step_schema(false);
  else if (name == "StepResult") schemas[name] = step_schema(true);
  else if (name == "RolloutOptions") schemas[name] = options_schema_of<RolloutOptions>();
  else if (name == "SamplingOptions") schemas[name] = options_schema_of<SamplingOptions>();
  else if (name == "EvaluationOptions") schemas[name] = options_schema_of<EvaluationOptions>();
  else return false;
  return true;
}

// ---- The notation ----

class Types {
 public:
  Types(const YAML::Node& common, const YAML::Node& role) : common_(common), role_(role) {}

  Json of(const YAML::Node& node) {
    if (!node || node.IsNull()) return Json::object();
    if (node.IsScalar()) return word(node.Scalar());
    if (node.IsSequence()) return list(node);
    return object(node);
  }
  Json schemas() { return std::move(schemas_); }

 private:
  Json list(const YAML::Node& node) {
    if (node.size() == 1) return {{"type", "array"}, {"items", of(node[0])}};
    Json either = Json::array();
    for (const YAML::Node& one : node) either.push_back(of(one));
    return {{"anyOf", std::move(either)}};
  }

  Json object(const YAML::Node& node) {
    if (node.size() == 1 && node["*"]) return {{"type", "object"}, {"additionalProperties", of(node["*"])}};
    Json properties = Json::object(), required = Json::array();
    for (const auto& field : node) {
      std::string name = field.first.Scalar();
      if (name.ends_with('~')) name.pop_back();
      else required.push_back(name);
      properties[name] = of(field.second);
    }
    Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) schema["required"] = std::move(required);
    return schema;
  }

  Json word(const std::string& text) {
    const size_t dash = text.find(" -- ");
    Json schema = alternatives(text.substr(0, dash));
    if (dash != std::string::npos) schema["description"] = text.substr(dash + 4);
    return schema;
  }

  Json alternatives(const std::string& text) {
    constexpr std::string_view kOr = " | ";
    Json words = Json::array(), either = Json::array();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(kOr, begin), text.size());
      const std::string one = text.substr(begin, end - begin);
      if (one.starts_with('=')) words.push_back(one.substr(1));
      else either.push_back(simple(one));
      begin = end + kOr.size();
    }
    if (!words.empty()) either.push_back({{"enum", std::move(words)}});
    return either.size() == 1 ? either[0] : Json{{"anyOf", std::move(either)}};
  }

  Json simple(const std::string& name) {
    if (name == "text") return {{"type", "string"}};
    if (name == "bool") return {{"type", "boolean"}};
    if (name == "any") return Json::object();
    if (name == "integer" || name == "number" || name == "object" || name == "null") return {{"type", name}};
    if (!schemas_.contains(name) && !add_from_code(schemas_, name)) {
      const YAML::Node defined = role_["types"][name] ? role_["types"][name] : common_["types"][name];
      if (!defined) fail(ErrorKind::kCorrupt, "api: there is no type '{}'", name);
      schemas_[name] = Json::object();  // a type that holds itself ends here
      schemas_[name] = of(defined);
    }
    return {{"$ref", "#/components/schemas/" + name}};
  }

  YAML::Node common_, role_;
  Json schemas_ = Json::object();
};

// ---- Operations ----

std::string identifier(const std::string& method, const std::string& path) {
  std::string id = lowered(method);
  for (const char c : path) {
    if (std::isalnum(static_cast<unsigned char>(c))) id += c;
    else if (id.back() != '_') id += '_';
  }
  while (id.back() == '_') id.pop_back();
  return id;
}

Json parameters_of(const std::string& path, const YAML::Node& query, Types& types) {
  Json parameters = Json::array();
  for (size_t open = path.find('{'); open != std::string::npos; open = path.find('{', open + 1)) {
    const std::string name = path.substr(open + 1, path.find('}', open) - open - 1);
    parameters.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  for (const auto& field : query) {
    std::string name = field.first.Scalar();
    const bool optional = name.ends_with('~');
    if (optional) name.pop_back();
    parameters.push_back(
        {{"name", name}, {"in", "query"}, {"required", !optional}, {"schema", types.of(field.second)}});
  }
  return parameters;
}

// JSON of a type, and content types beside it of which nothing more is said than what they are.
Json content_of(const YAML::Node& type, const YAML::Node& others, Types& types) {
  Json content = Json::object();
  if (type) content["application/json"] = {{"schema", types.of(type)}};
  for (const auto& other : others)
    content[other.first.Scalar()] = {{"schema", {{"type", "string"}, {"description", other.second.Scalar()}}}};
  return content;
}

Json operation(const std::string& method, const std::string& path, const YAML::Node& node, Types& types) {
  Json json = {{"operationId", identifier(method, path)}, {"summary", node["says"].Scalar()}};
  if (Json parameters = parameters_of(path, node["query"], types); !parameters.empty())
    json["parameters"] = std::move(parameters);
  if (node["takes"] || node["forms"])
    json["requestBody"] = {{"content", content_of(node["takes"], node["forms"], types)}};
  json["responses"] = {{"200", {{"description", "done"}, {"content", content_of(node["gives"], node["also"], types)}}},
                       {"default",
                        {{"description", "what was wrong, in one line"},
                         {"content",
                          {{"application/json",
                            {{"schema", node["error"] ? types.of(node["error"]) : types.of(YAML::Node("Error"))}}}}}}}};
  if (node["roles"]) json["x-roles"] = node["roles"].as<std::vector<std::string>>();
  return json;
}

void add_paths(Json& paths, const YAML::Node& node, Types& types) {
  for (const auto& entry : node) {
    const std::string key = entry.first.Scalar();  // "GET|POST /flush_cache"
    const size_t space = key.find(' ');
    if (space == std::string::npos || !entry.second["says"])
      fail(ErrorKind::kCorrupt, "api: '{}' is not 'METHOD /path' with `says`", key);
    const std::string path = key.substr(space + 1);
    for (size_t begin = 0; begin < space;) {
      const size_t end = std::min(key.find('|', begin), space);
      const std::string method = key.substr(begin, end - begin);
      paths[path][lowered(method)] = operation(method, path, entry.second, types);
      begin = end + 1;
    }
  }
}

}  // namespace

std::vector<std::string> api_roles() {
  std::vector<std::string> roles;
  for (const auto& [name, text] : api_files) {
    if (!name.starts_with(kCommon)) roles.emplace_back(name.substr(0, name.size() - kEnd.size()));
  }
  return roles;
}

Json openapi_document(const std::string& role) {
  const YAML::Node common = api_file(kCommon), own = api_file(role);
  Types types(common, own);
  Json paths = Json::object();
  add_paths(paths, common["paths"], types);
  add_paths(paths, own["paths"], types);
  Json document = {{"openapi", "3.1.0"},
                   {"info",
                    {{"title", "tritonforge serve " + role},
                     {"version", build_info().version},
                     {"description", own["says"].Scalar()}}},
                   {"servers", {{{"url", "http://127.0.0.1:" + own["port"].Scalar()}}}},
                   {"security", {Json::object(), {{"key", Json::array()}}}},
                   {"paths", std::move(paths)},
                   {"components",
                    {{"securitySchemes",
                      {{"key",
                        {{"type", "http"},
                         {"scheme", "bearer"},
                         {"description", "--api-key-file, or TRITONFORGE_API_KEY of the server's environment"}}}}},
                     {"schemas", types.schemas()}}}};
  if (own["others"]) document["x-other-paths"] = own["others"].Scalar();
  return document;
}

}  // namespace tritonforge::cli
