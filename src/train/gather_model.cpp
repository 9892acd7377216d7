#include "train/gather_model.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"

namespace tritonforge::train {

void gather_model(const model::Model& part, parallel::Group& tp, model::Model* whole) {
  const at::NoGradGuard no_grad;
  TF_CHECK((tp.rank() == 0) == (whole != nullptr), "rank {} gathers a model", tp.rank());
  const auto parts = part.named_parameters();
  const auto to = whole != nullptr ? whole->named_parameters() : parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, mine] = parts[i];
    at::Tensor target = to[i].second;
    if (model::tensor_part(name, mine.sizes(), {tp.rank(), tp.size()}).replica) {
      if (whole != nullptr) target.copy_(mine);
      continue;
    }
    const at::Tensor all = at::empty({tp.size(), mine.numel()}, mine.options());
    all[tp.rank()].copy_(mine.view({-1}));
    tp.all_gather(all.view({-1}), name)->wait();
    for (int64_t rank = 0; rank < tp.size() && whole != nullptr; ++rank)
      model::tensor_part(name, mine.sizes(), {rank, tp.size()}).of(target).copy_(all[rank].view(mine.sizes()));
  }
}

}  // namespace tritonforge::train
