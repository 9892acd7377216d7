#pragma once
// An option is declared once. A struct lists its members with name, rules and help; a default is the member's
// initialiser:
//
//   struct SamplingOptions {
//     double temperature = 1.0;
//     Credit credit = Credit::kTrajectory;
//     void describe(OptionList& v) {
//       v("temperature", temperature, at_least(0), "0 = greedy");
//       v("credit", credit, "what a turn's tokens are paid for");  // an enum brings its names: base/named_enum.h
//     }
//     void validate() const;  // if there is more to say than one option can: throws kUsage naming them
//   };
//
// From it come the reader and the writer of YAML (base/config.h) and of JSON (base/options_json.h), a command's flags
// (cli/flags.h), the arguments of a child process (to_flags below) and docs/recipes.md.
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/named_enum.h"

namespace tritonforge {

class OptionList;

using OptionValue = std::variant<bool, int64_t, double, std::string>;
enum class OptionKind { kBool, kInteger, kNumber, kText, kSection };  // the first four: OptionValue's alternatives

struct Option {
  std::string name, help;
  OptionKind kind = OptionKind::kBool;  // of the value, or of each entry of a list
  bool list = false;

  // What a value (each entry of a list) may be. A number is always finite.
  struct Bound {
    double value = 0;
    bool inclusive = true;
  };
  std::optional<Bound> low, high;
  int64_t smallest = INT64_MIN,
          largest = INT64_MAX;     // what fits the member; above INT64_MAX nothing is read or written
  std::vector<std::string> names;  // the closed set of a text; empty: any text
  // A text's form: gives it as it is kept, or throws kUsage without the option's name. "" has none.
  std::function<std::string(const std::string& text)> form;

  bool required = false;  // a text that must not be empty
  bool by_run = false;    // decided by whoever starts the process
  bool hidden = false;    // by_run and in a recipe: it has no key there
  bool commas = false;    // a flag's argument may hold several entries
  std::string flag;       // spelled otherwise than its name

  std::function<std::vector<OptionValue>()> get;  // one value where it is no list; of this kind
  std::function<void(std::vector<OptionValue>)> put;
  std::shared_ptr<OptionList> section;

  // Puts values of this kind after checking them. Throws kUsage: "'gamma' must be between 0 and 1, not 2", where
  // `shown` is the name as the user wrote it ("'rl.gamma'", "--gamma").
  void set(std::vector<OptionValue> values, const std::string& shown) const;
  void check(const std::vector<OptionValue>& values, const std::string& shown) const;
  std::string allowed() const;  // "between 0 and 1", "a | b"; "" where every value is
};

std::string text_of(const OptionValue& value);  // as YAML and flags spell it
std::string text_of(const Option& option);      // its value now; lists as [a, b]

// What stands between an option's member and its help.
using OptionRule = std::function<void(Option&)>;
OptionRule at_least(double low);
OptionRule above(double low);
OptionRule at_most(double high);
OptionRule below(double high);
OptionRule in(double low, double high);
OptionRule one_of(std::vector<std::string> names);
OptionRule in_form(std::function<std::string(const std::string& text)> form);
OptionRule required();
OptionRule spelled(std::string flag);  // "trials": the flag is --trials, whatever the option's name
OptionRule commas();                   // --levels 1,2 beside --levels 1 --levels 2
// Decided by whoever starts the process: a flag, but no key of a recipe.
OptionRule by_run();
// Of a section of a recipe: its by_run options have no key. Such a key is read as long as it says nothing (a recipe
// dumped by an older version) and refused where it does.
OptionRule in_recipe();

template <typename T>
concept Described = requires(T& object, OptionList& list) { object.describe(list); };
template <typename T>
concept Validated = requires(const T& object) { object.validate(); };

// The options of one struct, in the order of their declaration, bound to its members.
class OptionList {
 public:
  template <typename T, typename... Rules>
  void operator()(const char* name, T& value, const Rules&... rules) {
    Option& option = options_.emplace_back();
    option.name = name;
    bind(option, value);
    (apply(option, rules), ...);
  }
  // The options of `part` become this struct's own: no section of their own in YAML, flags beside the others.
  template <Described T, typename... Rules>
  void part(T& part, const Rules&... rules) {
    Option section;
    bind(section, part);
    (apply(section, rules), ...);
    append(*section.section);
  }

  const std::vector<Option>& options() const { return options_; }
  std::vector<Option>& options() { return options_; }
  std::vector<std::string> names() const;  // without the hidden ones
  // Checks the values as they are, of sections too, then what each validate() says. `path` begins the names: "rl.".
  void validate(const std::string& path = "") const;
  // What can be said of a struct once all of its own options are set: that none is missing, and what validate() says.
  void finish(const std::string& path) const;

 private:
  static void apply(Option& option, const char* help) { option.help = help; }
  static void apply(Option& option, const OptionRule& rule) { rule(option); }

  template <typename T>
  static void bind(Option& option, T& value) {
    if constexpr (Described<T>) {
      option.kind = OptionKind::kSection;
      option.section = std::make_shared<OptionList>();
      value.describe(*option.section);
      if constexpr (Validated<T>) option.section->validators_.push_back([&value] { value.validate(); });
    } else {
      describe_type<T>(option);
      option.get = [&value] { return std::vector<OptionValue>{to_value(value)}; };
      option.put = [&value](std::vector<OptionValue> given) { value = from_value<T>(given.at(0)); };
    }
  }
  template <typename T>
  static void bind(Option& option, std::vector<T>& list) {
    describe_type<T>(option);
    option.list = true;
    option.get = [&list] {
      std::vector<OptionValue> values;
      for (const T& entry : list) values.push_back(to_value(entry));
      return values;
    };
    option.put = [&list](std::vector<OptionValue> given) {
      list.clear();
      for (OptionValue& entry : given) list.push_back(from_value<T>(entry));
    };
  }

  template <typename T>
  static void describe_type(Option& option) {
    if constexpr (std::same_as<T, bool>) {
      option.kind = OptionKind::kBool;
    } else if constexpr (std::integral<T>) {
      option.kind = OptionKind::kInteger;
      if (std::in_range<int64_t>(std::numeric_limits<T>::min())) option.smallest = std::numeric_limits<T>::min();
      if (std::in_range<int64_t>(std::numeric_limits<T>::max())) option.largest = std::numeric_limits<T>::max();
    } else if constexpr (std::floating_point<T>) {
      option.kind = OptionKind::kNumber;
    } else {
      option.kind = OptionKind::kText;
      if constexpr (OptionalEnum<T>) option.names.emplace_back("");
      if constexpr (NamedEnum<T>) {
        for (const std::string_view name : names_of(T{})) option.names.emplace_back(name);
      } else if constexpr (OptionalEnum<T>) {
        for (const std::string_view name : names_of(typename T::value_type{})) option.names.emplace_back(name);
      }
    }
  }
  template <typename T>
  static OptionValue to_value(const T& value) {
    if constexpr (std::same_as<T, bool>) return value;
    else if constexpr (std::integral<T>) return static_cast<int64_t>(value);
    else if constexpr (std::floating_point<T>) return static_cast<double>(value);
    else if constexpr (NamedEnum<T> || OptionalEnum<T>) return std::string(name_of(value));
    else if constexpr (std::same_as<T, std::filesystem::path>) return value.string();
    else return value;
  }
  template <typename T>
  static T from_value(OptionValue& value) {
    if constexpr (std::same_as<T, bool>) {
      return std::get<bool>(value);
    } else if constexpr (std::integral<T>) {
      return static_cast<T>(std::get<int64_t>(value));
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(std::get<double>(value));
    } else if constexpr (NamedEnum<T>) {
      return from_name<T>(std::get<std::string>(value), "value");
    } else if constexpr (OptionalEnum<T>) {
      return optional_from_name<typename T::value_type>(std::get<std::string>(value), "value");
    } else {
      return T(std::move(std::get<std::string>(value)));
    }
  }

  void append(const OptionList& part);

  std::vector<Option> options_;
  std::vector<std::function<void()>> validators_;
};

// The options of `object`, bound to it: it must outlive them.
template <Described T>
OptionList options_of(T& object) {
  OptionList list;
  list.part(object);
  return list;
}

// Checks a struct that was filled in by code as a reader would have: every option's rules, then validate().
template <Described T>
void check_options(T object) {
  options_of(object).validate();
}

// "--candidate-timeout" of candidate_timeout_s (seconds go unsaid), "--no-prefix-reuse" of a bool that is true now.
std::string flag_of(const Option& option);
// The value that a flag's text gives; nothing where it is none of this kind.
std::optional<OptionValue> parse_value(OptionKind kind, const std::string& text);
const char* expected(OptionKind kind);  // "an integer"

// What a reader walks: a node of YAML or JSON.
class OptionSource {
 public:
  virtual ~OptionSource() = default;
  virtual bool is_null() const = 0;
  virtual bool null_is_default() const = 0;  // JSON: a field that is null is as good as absent
  virtual bool is_map() const = 0;
  virtual bool is_list() const = 0;
  virtual std::vector<std::string> keys() const = 0;                             // of a map
  virtual std::unique_ptr<OptionSource> find(const std::string& key) const = 0;  // null where it is not there
  virtual std::vector<std::unique_ptr<OptionSource>> entries() const = 0;        // of a list
  virtual std::optional<OptionValue> value(OptionKind kind) const = 0;           // nothing: another kind
  virtual std::string shown() const = 0;                                         // for an error's text
};
// Sets the options that `source` has keys for. `noun` is what it calls one: "key", "field". Throws kUsage: an unknown
// key with the nearest known one, a wrong shape, a value that is not allowed; each with its path.
void read_options(const OptionSource& source, const OptionList& list, const std::string& path, const char* noun);

namespace detail {
std::vector<std::string> flags_that_differ(const OptionList& list, const OptionList& defaults);
}
// The arguments that make a command with T's flags hold `object`: of every option that is not at its default.
template <Described T>
std::vector<std::string> to_flags(T object) {
  T defaults;
  return detail::flags_that_differ(options_of(object), options_of(defaults));
}

}  // namespace tritonforge
