#pragma once
// How much a kernel can store, told from its text alone.
#include <cstdint>
#include <optional>

#include "evaluate/ir/module.h"

namespace tritonforge::evaluate::ir {

// At most so many bytes one program stores, masks left aside; nullopt where it is in a loop whose rounds are not
// written out, or in what is not known here. Throws kUsage where there is not one public function.
std::optional<int64_t> most_stored(const Module& module);

}  // namespace tritonforge::evaluate::ir
