#include "model/stages.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::model {
namespace {

// How many layers the last stage has.
int64_t last_layers(const ModelConfig& c, int64_t stages) {
  const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;
  const double layer = static_cast<double>(c.hidden_size * (2 * q + 2 * kv + 3 * c.intermediate_size)),
               head = static_cast<double>(c.hidden_size * c.vocab_size) / layer;
  int64_t best = 1;
  double fastest = 0;
  for (int64_t last = 1; last <= c.num_layers - (stages - 1); ++last) {
    const int64_t others = (c.num_layers - last + stages - 2) / (stages - 1);
    const double slowest = std::max(static_cast<double>(others), static_cast<double>(last) + head);
    if (last > 1 && slowest > fastest) continue;
    best = last;
    fastest = slowest;
  }
  return best;
}

}  // namespace

ModelConfig stage_of(const ModelConfig& whole, const Stage& at) {
  if (at.count == 1) return whole;
  if (whole.num_layers < at.count)
    fail(ErrorKind::kUsage, "parallel.pp {}: the model has {} layers", at.count, whole.num_layers);
  ModelConfig stage = whole;
  stage.whole_layers = whole.num_layers;
  const int64_t last = last_layers(whole, at.count), others = at.count - 1, before = whole.num_layers - last;
  if (at.index == others) {
    stage.first_layer = before;
    stage.num_layers = last;
  } else {  // the earlier a stage, the more micro-batches it keeps: what is over goes to the later ones
    stage.num_layers = before / others + (at.index >= others - before % others ? 1 : 0);
    stage.first_layer = before / others * at.index + std::max<int64_t>(0, at.index - (others - before % others));
  }
  return stage;
}

}  // namespace tritonforge::model
