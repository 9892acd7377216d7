#pragma once
// Who sends what where a trainer's ranks have the weights in parts: every element of the model's tensors comes from one
// of them, as it lies there, and no rank has the whole model in between. Both ends make the same plan from the model's
// shape and the trainer's layout.
#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "contract/weights.h"
#include "model/tensor_parallel.h"

namespace tritonforge::weights {

// How a trainer's ranks have the weights. Those of one tensor-parallel rank and stage have the same; the first sends.
struct SourceLayout {
  int64_t tp = 1, pp = 1, pp_chunks = 1;
  int64_t sources() const { return tp * pp; }
  // Of the rank that sends: tp varies fastest.
  model::TensorParallel tensor_parallel(int64_t source) const { return {source % tp, tp}; }
  model::Stage stage(int64_t source) const { return {source / tp, pp, pp_chunks}; }
};

// A rank's tensor in the model's: all of it but for one dimension, of which it begins at `begin`.
struct Piece {
  std::string name;                   // the Hugging Face one
  std::vector<int64_t> sizes, whole;  // of the rank's tensor; of the model's
  int64_t dim = 0, begin = 0;
  int64_t numel() const { return c10::multiply_integers(sizes); }
  at::Tensor of(const at::Tensor& tensor) const { return tensor.narrow(dim, begin, sizes[static_cast<size_t>(dim)]); }
};

// What each source sends, in this order. Throws kUsage where the layout does not divide the model.
std::vector<std::vector<Piece>> transfer_plan(const model::ModelConfig& whole, const SourceLayout& trainer);

// The same for the same names and shapes, whatever the layouts.
std::string plan_checksum(const model::ModelConfig& whole);

// Of what a source sends: begins at multiples of this many bytes.
constexpr int64_t kPieceAlignment = 64;
int64_t stream_bytes(const std::vector<Piece>& pieces, at::ScalarType dtype);
// pieces[i] as a tensor of the stream [bytes], kByte.
std::vector<at::Tensor> piece_tensors(const std::vector<Piece>& pieces, at::ScalarType dtype, const at::Tensor& stream);

// Adds each piece's share of its tensor's checksum (kernels/checksum.h) to `sums`: those of all pieces of a tensor are
// the tensor's. tensors: of the pieces. Throws kUnsupported naming a piece that is not made of words of 8 bytes.
using ChecksumShares = std::map<std::string, uint64_t>;
void add_checksums(const std::vector<Piece>& pieces, const std::vector<at::Tensor>& tensors, ChecksumShares& sums);
TensorChecksums checksums_of(const ChecksumShares& sums);  // once all shares are in them

}  // namespace tritonforge::weights
