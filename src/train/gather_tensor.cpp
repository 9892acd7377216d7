#include "train/gather_tensor.h"

#include <algorithm>

namespace tritonforge::train {
namespace {

constexpr int64_t kPieceBytes = int64_t{32} << 20;

}  // namespace

std::vector<TensorRows> pieces_of(const std::string& name, const at::Tensor& mine, int64_t ranks) {
  const int64_t rows = mine.size(0), row_bytes = static_cast<int64_t>(mine.nbytes()) / rows;
  const int64_t at_once = std::max<int64_t>(1, kPieceBytes / (row_bytes * ranks));
  std::vector<TensorRows> pieces;
  for (int64_t begin = 0; begin < rows; begin += at_once)
    pieces.push_back({name, mine, begin, std::min(at_once, rows - begin)});
  return pieces;
}

at::Tensor gather(const TensorRows& piece, parallel::Group& tp) {
  const at::Tensor rows = piece.mine.narrow(0, piece.begin, piece.count);
  const at::Tensor all = at::empty({tp.size(), rows.numel()}, rows.options());
  all[tp.rank()].copy_(rows.reshape({-1}));
  tp.all_gather(all.view({-1}), piece.name)->wait();
  return all;
}

void put(const TensorRows& piece, const at::Tensor& gathered, const at::Tensor& whole) {
  const int64_t ranks = gathered.size(0);
  std::vector<int64_t> sizes = piece.mine.sizes().vec();
  sizes[0] = piece.count;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : gathered.unbind()) parts.push_back(part.view(sizes));
  if (model::tensor_part(piece.name, piece.mine.sizes(), {0, ranks}).dim == 1) {
    // Side by side where they are: to other memory goes what lies in one piece.
    whole.narrow(0, piece.begin, piece.count).copy_(at::cat(parts, 1), /*non_blocking=*/true);
    return;
  }
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const at::Tensor place = model::tensor_part(piece.name, piece.mine.sizes(), {rank, ranks}).of(whole);
    place.narrow(0, piece.begin, piece.count).copy_(parts[static_cast<size_t>(rank)], /*non_blocking=*/true);
  }
}

}  // namespace tritonforge::train
