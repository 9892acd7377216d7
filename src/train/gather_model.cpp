#include "train/gather_model.h"

#include <ATen/core/grad_mode.h>

#include <map>

#include "base/error.h"
#include "train/gather_tensor.h"
#include "train/weight_shards.h"

namespace tritonforge::train {
namespace {

int64_t rank_of(const parallel::Group* group) { return group != nullptr ? group->rank() : 0; }

// `mine` of every tensor-parallel rank, put together in `whole` on the first of them.
void gather_tensor(const std::string& name, const at::Tensor& mine, parallel::Group* tp, const at::Tensor& whole) {
  if (tp == nullptr || model::tensor_part(name, mine.sizes(), {tp->rank(), tp->size()}).replica) {
    if (rank_of(tp) == 0) whole.copy_(mine, /*non_blocking=*/true);
    return;
  }
  for (const TensorRows& piece : pieces_of(name, mine, tp->size())) {
    const at::Tensor gathered = gather(piece, *tp);
    if (tp->rank() == 0) put(piece, gathered, whole);
  }
}

void receive_stages(const model::Model& first, parallel::Group& onward, const model::Model& whole,
                    const std::map<std::string, at::Tensor>& places) {
  for (int64_t index = 1; index < onward.size(); ++index) {
    const model::Stage at{index, onward.size(), first.config().chunk_count()};
    const model::Model stage(model::stage_of(whole.config(), at), whole.dtype(), at::kMeta);
    for (const auto& [name, like] : stage.named_parameters()) {
      if (!is_its_own(name, stage.config())) continue;
      const at::Tensor& place = places.at(name);
      const bool there = place.device() == first.device();
      const at::Tensor received = there ? place : at::empty(like.sizes(), first.arena().options());
      onward.receive(received.view({-1}), index, name)->wait();
      if (!there) place.copy_(received);
    }
  }
}

}  // namespace

void gather_model(const model::Model& part, const parallel::Groups& groups, model::Model* whole) {
  const at::NoGradGuard no_grad;
  const bool first_of_tp = rank_of(groups.tp) == 0;
  TF_CHECK((first_of_tp && part.config().embeds()) == (whole != nullptr), "a stage's rank {} gathers a model",
           rank_of(groups.tp));
  std::map<std::string, at::Tensor> places;
  if (whole != nullptr) {
    for (const auto& [name, tensor] : whole->named_parameters()) places.emplace(name, tensor);
  }
  for (const auto& [name, mine] : part.named_parameters()) {
    if (!is_its_own(name, part.config())) continue;
    at::Tensor to;
    if (whole != nullptr) {
      to = places.at(name);
    } else if (first_of_tp) {
      const model::TensorParallel at{0, groups.tp != nullptr ? groups.tp->size() : 1};
      to = at::empty(model::tensor_part(name, mine.sizes(), at).whole, mine.options());
    }
    gather_tensor(name, mine, groups.tp, to);
    if (whole == nullptr && first_of_tp) groups.onward->send(to.view({-1}), 0, name)->wait();
  }
  if (whole != nullptr && groups.onward != nullptr) receive_stages(part, *groups.onward, *whole, places);
}

}  // namespace tritonforge::train
