#pragma once
// JSON <-> a struct that describes its options (base/options.h): bodies of requests, and rows of a database.
#include <string>

#include "base/json.h"
#include "base/options.h"

namespace tritonforge {

namespace detail {
void read_json(const Json& json, const std::string& where, const OptionList& list);
Json write_json(const OptionList& list);
}  // namespace detail

// Fields that are absent or null keep their defaults. Throws kUsage beginning with `where`: an unknown field with the
// nearest one, a wrong type, a value that is not allowed, each with its path ("sampling.top_p").
template <Described T>
T options_from_json(const Json& json, const std::string& where) {
  T options;
  detail::read_json(json, where, options_of(options));
  return options;
}

// The same into options that are there already.
template <Described T>
void read_options_json(const Json& json, const std::string& where, T& into) {
  detail::read_json(json, where, options_of(into));
}

template <Described T>
Json options_to_json(T options) {
  return detail::write_json(options_of(options));
}

}  // namespace tritonforge
