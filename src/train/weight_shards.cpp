#include "train/weight_shards.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "model/stages.h"
#include "train/gather_tensor.h"

namespace tritonforge::train {
namespace {

constexpr int64_t kAlignment = 64;

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }
int64_t room_of(const at::Tensor& tensor) { return (bytes_of(tensor) + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<model::NamedTensors> deal(const model::NamedTensors& tensors, int64_t ranks) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return bytes_of(tensors[i].second); });
  std::vector<int64_t> bytes(static_cast<size_t>(ranks));
  std::vector<std::vector<size_t>> dealt(bytes.size());
  for (const size_t i : order) {
    const auto least = static_cast<size_t>(std::ranges::min_element(bytes) - bytes.begin());
    bytes[least] += bytes_of(tensors[i].second);
    dealt[least].push_back(i);
  }
  std::vector<model::NamedTensors> of_ranks;
  for (std::vector<size_t>& mine : dealt) {
    std::ranges::sort(mine);  // as the model has them
    auto& named = of_ranks.emplace_back();
    for (const size_t i : mine) named.push_back(tensors[i]);
  }
  return of_ranks;
}

template <typename Files, typename F>  // f(name, tensor), of the rank's
void over_shard(Files& files, int64_t rank, const F& f) {
  for (auto& file : files) {
    if (file.writer != rank) continue;
    for (auto& [name, tensor] : file.tensors) f(name, tensor);
  }
}

std::map<std::string, at::Tensor> by_name(const model::Model& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : model.named_parameters()) tensors.emplace(name, tensor);
  return tensors;
}

// A piece and where its tensor is put together; there is no such place on the other ranks.
struct Gathering {
  TensorRows piece;
  at::Tensor whole;
};

}  // namespace

bool is_its_own(const std::string& name, const model::ModelConfig& stage) {
  return stage.embeds() || name != model::kTable;
}

model::WeightFiles shard_files(const model::ModelConfig& whole, at::ScalarType dtype,
                               const parallel::ParallelDims& dims) {
  std::vector<model::NamedTensors> of_ranks;
  for (int64_t index = 0; index < dims.pp; ++index) {
    const model::Model stage(model::stage_of(whole, {index, dims.pp, dims.pp_chunks}), dtype, at::kMeta);
    model::NamedTensors own = stage.named_parameters();
    std::erase_if(own, [&](const auto& tensor) { return !is_its_own(tensor.first, stage.config()); });
    for (model::NamedTensors& of_rank : deal(own, dims.world() / dims.pp)) of_ranks.push_back(std::move(of_rank));
  }
  return model::weight_files(of_ranks);
}

model::NamedTensors shard_of(const model::WeightFiles& files, int64_t rank) {
  model::NamedTensors tensors;
  over_shard(files, rank,
             [&](const std::string& name, const at::Tensor& tensor) { tensors.emplace_back(name, tensor); });
  return tensors;
}

int64_t shard_bytes(const model::WeightFiles& files, int64_t rank) {
  int64_t bytes = 0;
  over_shard(files, rank, [&](const std::string&, const at::Tensor& tensor) { bytes += room_of(tensor); });
  return bytes;
}

void use_shard(model::WeightFiles& files, int64_t rank, const model::Model& part) {
  const auto here = by_name(part);
  over_shard(files, rank, [&](const std::string& name, at::Tensor& tensor) { tensor = here.at(name); });
}

void place_shard(model::WeightFiles& files, int64_t rank, const at::Tensor& memory) {
  int64_t begin = 0;
  over_shard(files, rank, [&](const std::string&, at::Tensor& tensor) {
    const at::Tensor bytes = memory.narrow(0, begin, bytes_of(tensor));
    begin += room_of(tensor);
    tensor = bytes.view(tensor.scalar_type()).view(tensor.sizes());
  });
}

void copy_shard(const model::WeightFiles& files, int64_t rank, const model::Model& part,
                const parallel::Groups& groups) {
  const at::NoGradGuard no_grad;
  parallel::Group* const tp = groups.tp;
  const auto here = by_name(part);
  const auto is_whole = [&](const std::string& name) {
    return tp == nullptr || model::tensor_part(name, here.at(name).sizes(), {tp->rank(), tp->size()}).replica;
  };
  over_shard(files, rank, [&](const std::string& name, const at::Tensor& to) {
    if (is_whole(name)) to.copy_(here.at(name), /*non_blocking=*/true);
  });
  if (tp == nullptr) return;
  // A piece of each rank's in turn, so that all of them copy what is theirs to the host at the same time.
  std::vector<std::vector<Gathering>> of_ranks(static_cast<size_t>(tp->size()));
  size_t rounds = 0;
  for (int64_t owner = 0; owner < tp->size(); ++owner) {
    auto& gatherings = of_ranks[static_cast<size_t>(owner)];
    over_shard(files, rank - tp->rank() + owner, [&](const std::string& name, const at::Tensor& whole) {
      if (is_whole(name)) return;
      for (TensorRows& piece : pieces_of(name, here.at(name), tp->size()))
        gatherings.push_back({std::move(piece), whole});
    });
    rounds = std::max(rounds, gatherings.size());
  }
  const auto& own = of_ranks[static_cast<size_t>(tp->rank())];
  for (size_t round = 0; round < rounds; ++round) {
    at::Tensor mine;
    for (const auto& gatherings : of_ranks) {
      if (round >= gatherings.size()) continue;
      const at::Tensor gathered = gather(gatherings[round].piece, *tp);
      if (&gatherings == &own) mine = gathered;
    }
    if (mine.defined()) put(own[round].piece, mine, own[round].whole);
  }
}

}  // namespace tritonforge::train
