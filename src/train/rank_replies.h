#pragma once
// What each other rank of a job made of one thing that rank 0 had all of them do: by name at their meeting.
#include <functional>
#include <string>

#include "base/json.h"
#include "parallel/world.h"

namespace tritonforge::train {

// On a rank: {"done": what `work` returns}, or {"error"} of what it throws.
void put_reply(parallel::World& world, const std::string& name, const std::function<Json()>& work);

// On rank 0: hands over what each other rank returned, each once. Throws kUnavailable naming a rank that failed, once
// all have answered, or kTimeout.
void take_replies(parallel::World& world, const std::string& name, double seconds,
                  const std::function<void(const Json& done)>& take);

}  // namespace tritonforge::train
