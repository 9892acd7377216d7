#pragma once
// What a launch gives a kernel against what it takes, for languages whose compiler sees the kernel alone. Known from
// what the compiler says, so that no device is needed.
//   parameters  [[kind, bytes]] in order: "global" a pointer, "local" memory of a block, "integer", "real", "value"
//               where the compiler does not tell: of eight bytes a pointer or a number
#include <string>

#include "evaluate/plan/plan.h"

namespace tritonforge::evaluate {

// "" or what is wrong first: "kernel add: 2 arguments for 3 parameters". `converts`: numbers become what the parameter
// is; else their bits are handed over, and a real number's are no integer's.
std::string wrong_arguments(const Plan& plan, const PlanStep& launch, const Json& parameters, bool converts);

}  // namespace tritonforge::evaluate
