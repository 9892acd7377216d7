#pragma once
// Enums whose values have names outside: one table, written beside the enum in the order of its values.
//
//   enum class Credit { kTrajectory, kPerTurn, kBestTurn };
//   constexpr std::array<std::string_view, 3> names_of(Credit) { return {"trajectory", "per_turn", "best_turn"}; }
//
//   name_of(Credit::kPerTurn)                      "per_turn"
//   from_name<Credit>("per_turn", "credit")        Credit::kPerTurn; throws kUsage: unknown credit 'x' (did you mean
//   ...)
#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace tritonforge {

template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) { names_of(value).size(); };

template <NamedEnum E>
std::string_view name_of(E value) {
  const auto names = names_of(value);
  const auto index = static_cast<size_t>(value);
  TF_CHECK(index < names.size(), "value {} has no name", index);
  return names[index];
}

template <NamedEnum E>
E from_name(std::string_view name, std::string_view what) {
  const auto names = names_of(E{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  fail(ErrorKind::kUsage, "unknown {} '{}'{}", what, name,
       nearest_hint(name, std::vector<std::string>(names.begin(), names.end())));
}

// An enum that may be left open: nothing is spelled "".
template <typename T>
concept OptionalEnum = NamedEnum<typename T::value_type> && std::same_as<T, std::optional<typename T::value_type>>;

template <NamedEnum E>
std::string_view name_of(const std::optional<E>& value) {
  return value ? name_of(*value) : std::string_view();
}

template <NamedEnum E>
std::optional<E> optional_from_name(std::string_view name, std::string_view what) {
  return name.empty() ? std::nullopt : std::optional(from_name<E>(name, what));
}

}  // namespace tritonforge
