#pragma once
// What is written, read and described (JSON Schema) from one list of a struct's fields:
//
//   template <>
//   struct FieldList<Trial> {
//     static constexpr std::string_view kName = "Trial", kOne = "trial", kHelp = "one correctness trial";
//     template <typename V, typename T>
//     static void visit(V& v, T& trial) {  // T: Trial, const where it is written
//       v("seed", trial.seed, "of its inputs");
//     }
//   };
//
//   v(name, member, help)               written always; where it is absent or null, the member keeps what it has
//   v.needed(name, member, help)        the same, but must be there to be read
//   v.when(condition, name, ...)        written where the condition holds
//   v.derived(name, value, help)        follows from the others: written, never read
//
// A member is a bool, a number, a text, an enum with names (base/named_enum.h) that may be left open, a struct with a
// list, a vector or optional of those, or a map from texts. JSON has no infinities: figure(member) is a number that
// travels as "inf", "-inf" or "nan" where it is not finite, never as a silent null.
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/json.h"
#include "base/named_enum.h"

namespace tritonforge {

template <typename T>
struct FieldList;  // declared in contract/field_lists.h

template <typename T>
concept Listed = requires { FieldList<std::remove_const_t<T>>::kName; };

template <typename T>
struct Figure {
  T& value;
};
template <typename T>
Figure<T> figure(T& value) {
  return {value};
}

Json figure_json(double value);
double figure_of(const Json& json, const char* key, std::string_view where);

class FieldWriter {
 public:
  explicit FieldWriter(bool tokens = true) : tokens_(tokens) {}

  template <typename T>
  void operator()(const char* name, const T& member, const char*) {
    json_[name] = value(member);
  }
  template <typename T>
  void needed(const char* name, const T& member, const char* help) {
    (*this)(name, member, help);
  }
  template <typename T>
  void when(bool condition, const char* name, const T& member, const char* help) {
    if (condition) (*this)(name, member, help);
  }
  template <typename T>
  void derived(const char* name, const T& member, const char* help) {
    (*this)(name, member, help);
  }
  bool tokens() const { return tokens_; }  // whether the arrays of a turn's tokens take part
  Json take() { return std::move(json_); }

 private:
  template <typename T>
  Json value(const T& member) const {
    if constexpr (Listed<T>) {
      FieldWriter inner(tokens_);
      FieldList<T>::visit(inner, member);
      return inner.take();
    } else if constexpr (NamedEnum<T> || OptionalEnum<T>) {
      return std::string(name_of(member));
    } else {
      return member;
    }
  }
  template <typename T>
  Json value(const std::vector<T>& list) const {
    if constexpr (Listed<T>) {
      Json json = Json::array();
      for (const T& entry : list) json.push_back(value(entry));
      return json;
    } else {
      return list;
    }
  }
  template <typename T>
    requires(!NamedEnum<T>)
  Json value(const std::optional<T>& member) const {
    return member ? value(*member) : Json();
  }
  template <typename T>
  Json value(const Figure<T>& member) const {
    return figure_json(member.value);
  }

  bool tokens_;
  Json json_ = Json::object();
};

// Throws kUsage naming the field and `where`.
class FieldReader {
 public:
  FieldReader(const Json& json, std::string where, bool tokens = true)
      : json_(json), where_(std::move(where)), tokens_(tokens) {
    if (!json.is_object()) fail(ErrorKind::kUsage, "{}: not a JSON object", where_);
  }

  template <typename T>
  void operator()(const char* name, T&& member, const char*) {
    const auto found = json_.find(name);
    if (found != json_.end() && !found->is_null()) read(name, *found, member);
  }
  template <typename T>
  void needed(const char* name, T&& member, const char*) {
    const auto found = json_.find(name);
    if (found == json_.end()) fail(ErrorKind::kUsage, "{}: field '{}' is missing", where_, name);
    read(name, *found, member);
  }
  template <typename T>
  void when(bool, const char* name, T&& member, const char* help) {
    (*this)(name, member, help);
  }
  template <typename T>
  void derived(const char*, const T&, const char*) {}
  bool tokens() const { return tokens_; }

 private:
  template <typename T>
  void read(const char* name, const Json& json, T& member) const {
    if constexpr (Listed<T>) {
      FieldReader inner(json, fmt::format("{} {}", where_, name), tokens_);
      FieldList<T>::visit(inner, member);
    } else if constexpr (NamedEnum<T> || OptionalEnum<T>) {
      member = named<T>(name, require<std::string>(json_, name, where_));
    } else {
      member = require<T>(json_, name, where_);
    }
  }
  template <typename T>
  void read(const char* name, const Json&, std::vector<T>& list) const {
    if constexpr (Listed<T>) {
      list.clear();
      for (const Json& entry : require_list(json_, name, where_)) {
        FieldReader inner(entry, fmt::format("{} {} {}", where_, FieldList<T>::kOne, list.size()), tokens_);
        FieldList<T>::visit(inner, list.emplace_back());
      }
    } else {
      list = require<std::vector<T>>(json_, name, where_);
    }
  }
  template <typename T>
    requires(!NamedEnum<T>)
  void read(const char* name, const Json& json, std::optional<T>& member) const {
    read(name, json, member.emplace());
  }
  template <typename T>
  void read(const char* name, const Json&, Figure<T>& member) const {
    member.value = figure_of(json_, name, where_);
  }
  template <typename T>
  T named(const char* name, const std::string& word) const {
    try {
      if constexpr (OptionalEnum<T>) return optional_from_name<typename T::value_type>(word, name);
      else return from_name<T>(word, name);
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", where_, error.what());
    }
  }

  const Json& json_;
  std::string where_;
  bool tokens_;
};

// JSON Schema (draft 2020-12) of a struct and, under `definitions`, of those that it is made of. What is always written
// is required; other properties are not forbidden.
class FieldSchema {
 public:
  FieldSchema(Json& definitions, bool tokens) : definitions_(definitions), tokens_(tokens) {}

  // {"$ref"} to the definition of T, which is made where it is not there yet.
  template <Listed T>
  static Json reference(Json& definitions, bool tokens) {
    const std::string name(FieldList<T>::kName);
    if (!definitions.contains(name)) {
      definitions[name] = Json::object();  // a struct that holds itself ends here
      FieldSchema schema(definitions, tokens);
      T example{};
      FieldList<T>::visit(schema, example);
      definitions[name] = {{"type", "object"},
                           {"description", FieldList<T>::kHelp},
                           {"properties", std::move(schema.properties_)},
                           {"required", std::move(schema.required_)}};
    }
    return {{"$ref", "#/$defs/" + name}};
  }

  template <typename T>
  void operator()(const char* name, const T& member, const char* help) {
    when(true, name, member, help);
    required_.push_back(name);
  }
  template <typename T>
  void needed(const char* name, const T& member, const char* help) {
    (*this)(name, member, help);
  }
  template <typename T>
  void when(bool, const char* name, const T& member, const char* help) {
    Json schema = type(member);
    schema["description"] = help;
    properties_[name] = std::move(schema);
  }
  template <typename T>
  void derived(const char* name, const T& member, const char* help) {
    (*this)(name, member, help);
  }
  bool tokens() const { return tokens_; }

 private:
  template <typename T>
  Json type(const T&) const {
    if constexpr (Listed<T>) {
      return reference<T>(definitions_, tokens_);
    } else if constexpr (NamedEnum<T>) {
      return {{"enum", names_of(T{})}};
    } else if constexpr (OptionalEnum<T>) {
      Json names = names_of(typename T::value_type{});
      names.push_back("");
      return {{"enum", std::move(names)}};
    } else if constexpr (std::same_as<T, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::unsigned_integral<T>) {
      return {{"type", "integer"}, {"minimum", 0}};
    } else if constexpr (std::integral<T>) {
      return {{"type", "integer"}};
    } else if constexpr (std::floating_point<T>) {
      return {{"type", "number"}};
    } else {
      return {{"type", "string"}};
    }
  }
  template <typename T>
  Json type(const std::vector<T>&) const {
    return {{"type", "array"}, {"items", type(T{})}};
  }
  template <typename T>
    requires(!NamedEnum<T>)
  Json type(const std::optional<T>&) const {
    return type(T{});
  }
  template <typename T>
  Json type(const std::map<std::string, T>&) const {
    return {{"type", "object"}, {"additionalProperties", type(T{})}};
  }
  template <typename T>
  Json type(const Figure<T>&) const {
    return {{"anyOf", {{{"type", "number"}}, {{"enum", {"inf", "-inf", "nan"}}}}}};
  }

  Json& definitions_;
  bool tokens_;
  Json properties_ = Json::object(), required_ = Json::array();
};

template <Listed T>
Json write_fields(const T& object, bool tokens = true) {
  FieldWriter writer(tokens);
  FieldList<T>::visit(writer, object);
  return writer.take();
}

template <Listed T>
void read_fields(const Json& json, T& object, const std::string& where, bool tokens = true) {
  FieldReader reader(json, where, tokens);
  FieldList<T>::visit(reader, object);
}

}  // namespace tritonforge
