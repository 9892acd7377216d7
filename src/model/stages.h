#pragma once
// Pipeline parallelism of weights: a stage is a model of some of the layers, one after the other; the first has the
// embedding, too, the last the norm and the head. Where the head is the embedding, both have it.
#include "model/config.h"

namespace tritonforge::model {

struct Stage {
  int64_t index = 0, count = 1;
};

// The stage's shape. Layers are dealt so that the slowest stage is as fast as can be: the head counts as the layers
// whose products are as large. kUsage where there are fewer layers than stages.
ModelConfig stage_of(const ModelConfig& whole, const Stage& at);

}  // namespace tritonforge::model
