#pragma once
// A tensor that tensor-parallel ranks have parts of, put together some rows at a time: what is there twice is a piece.
#include <cstdint>
#include <string>
#include <vector>

#include "model/tensor_parallel.h"
#include "parallel/group.h"

namespace tritonforge::train {

// Rows [begin, begin + count) of what a rank has of a tensor.
struct TensorRows {
  std::string name;
  at::Tensor mine;
  int64_t begin, count;
};
// All of a tensor's, which is not a replica, in pieces of at most 32 MiB of all `ranks` together, or of one row.
std::vector<TensorRows> pieces_of(const std::string& name, const at::Tensor& mine, int64_t ranks);

// Everybody's rows of the piece, [ranks, elements]. All ranks ask for the same one at once.
at::Tensor gather(const TensorRows& piece, parallel::Group& tp);
// Copies them to their places in the whole tensor, which is on any device. Does not wait for a GPU.
void put(const TensorRows& piece, const at::Tensor& gathered, const at::Tensor& whole);

}  // namespace tritonforge::train
