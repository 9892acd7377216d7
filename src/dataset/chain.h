#pragma once
// Parts of a model (part_file.h) one behind the other, as a PyTorch problem and as a solution with a kernel or several
// for each part. What follows a part element by element is computed in its kernel.
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "dataset/part_file.h"
#include "dataset/special.h"

namespace tritonforge::dataset {

// One to four of `parts`, each at most once, that take what the one before gives. `only`: exactly this part, alone.
SpecialDraw draw_chain(const std::vector<const Part*>& parts, Rng& rng, const Part* only = nullptr);

}  // namespace tritonforge::dataset
