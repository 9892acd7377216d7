#pragma once
// The whole model from what tensor-parallel ranks and the stages of a pipeline have of it.
#include "model/model.h"
#include "parallel/group.h"

namespace tritonforge::train {

// All ranks of groups.tp and groups.onward call it at once, of which there is at least one. whole: of the first rank of
// both, of the same dtype, on any device; null at the others. A tensor at a time is in memory twice.
void gather_model(const model::Model& part, const parallel::Groups& groups, model::Model* whole);

}  // namespace tritonforge::train
