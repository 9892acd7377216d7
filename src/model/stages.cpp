#include "model/stages.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::model {
namespace {

// How many layers the last part has.
int64_t last_layers(const ModelConfig& c, int64_t parts) {
  const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;
  const double layer = static_cast<double>(c.hidden_size * (2 * q + 2 * kv + 3 * c.intermediate_size)),
               head = static_cast<double>(c.hidden_size * c.vocab_size) / layer;
  int64_t best = 1;
  double fastest = 0;
  for (int64_t last = 1; last <= c.num_layers - (parts - 1); ++last) {
    const int64_t others = (c.num_layers - last + parts - 2) / (parts - 1);
    const double slowest = std::max(static_cast<double>(others), static_cast<double>(last) + head);
    if (last > 1 && slowest > fastest) continue;
    best = last;
    fastest = slowest;
  }
  return best;
}

LayerRange part_of_layers(const ModelConfig& whole, int64_t index, int64_t parts) {
  const int64_t last = last_layers(whole, parts), others = parts - 1, before = whole.num_layers - last;
  if (index == others) return {before, last};
  // The earlier a part, the more micro-batches are kept for it: what is over goes to the later ones.
  return {before / others * index + std::max<int64_t>(0, index - (others - before % others)),
          before / others + (index >= others - before % others ? 1 : 0)};
}

}  // namespace

ModelConfig stage_of(const ModelConfig& whole, const Stage& at) {
  if (at.count == 1) return whole;
  const int64_t parts = at.count * at.chunks;
  if (whole.num_layers < parts) {
    fail(ErrorKind::kUsage, "parallel.pp {}{}: the model has {} layers", at.count,
         at.chunks > 1 ? fmt::format(" x pp_chunks {}", at.chunks) : "", whole.num_layers);
  }
  ModelConfig stage = whole;
  stage.whole_layers = whole.num_layers;
  stage.num_layers = 0;
  for (int64_t index = at.index; index < parts; index += at.count) {
    stage.chunks.push_back(part_of_layers(whole, index, parts));
    stage.num_layers += stage.chunks.back().count;
  }
  return stage;
}

}  // namespace tritonforge::model
