#pragma once
// Element-wise families that follow a whole kernel and are computed in it, before it stores.
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "dataset/operators.h"

namespace tritonforge::dataset {

struct EpilogueStep {
  const Operator* op;
  std::string c, d;
};

// At most `length` families without operand, each within its domain where the first value is in `range`.
std::vector<EpilogueStep> draw_epilogue(size_t length, Range range, Rng& rng);

// `text` with every line "out = _EPILOGUE_(out)" replaced by the statements of `epilogue` on its variable.
std::string with_torch_epilogue(std::string_view text, const std::vector<EpilogueStep>& epilogue);
std::string with_triton_epilogue(std::string_view text, const std::vector<EpilogueStep>& epilogue);

}  // namespace tritonforge::dataset
