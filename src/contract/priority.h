#pragma once
// What a generation is for, where a router cannot let all of them go at once: training goes before evaluation.
#include <array>
#include <string_view>

namespace tritonforge {

enum class Priority { kTraining, kEvaluation };
constexpr std::array<std::string_view, 2> names_of(Priority) { return {"training", "evaluation"}; }

inline constexpr char kPriorityHeader[] = "x-priority";  // of a request; training where there is none

}  // namespace tritonforge
