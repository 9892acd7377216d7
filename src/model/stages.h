#pragma once
// Pipeline parallelism of weights: a stage is a model of some of the layers; the first has the embedding, too, the last
// the norm and the head. Where the head is the embedding, both have it. A stage's layers follow one another, or are
// several chunks of such: then the layers are as many parts as there are chunks of all stages (virtual stages,
// Megatron-LM's, arXiv 2104.04473), and part i is a chunk of stage i % count.
#include "model/config.h"

namespace tritonforge::model {

struct Stage {
  int64_t index = 0, count = 1, chunks = 1;
};

// The stage's shape. Layers are dealt so that the slowest part is as fast as can be: the head counts as the layers
// whose products are as large. kUsage where there are fewer layers than parts.
ModelConfig stage_of(const ModelConfig& whole, const Stage& at);

}  // namespace tritonforge::model
