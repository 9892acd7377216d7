#pragma once
// A model as those see it who bring it weights: whole, be it one Model or the parts that tensor-parallel ranks have of
// it, each on a device of its own.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor_parallel.h"

namespace tritonforge::model {

// A tensor of the whole, and where each rank has what of it.
struct ShardedTensor {
  std::string name;
  std::vector<at::Tensor> tensors;  // by rank
  std::vector<at::Tensor> scales;   // by rank, where the model has it in FP8; else none
  std::vector<TensorPart> places;

  const std::vector<int64_t>& sizes() const { return places.front().whole; }
  bool fp8() const { return !scales.empty(); }
  // (a rank's tensor, its part of `whole`) of every rank. Not where it is FP8.
  std::vector<std::pair<at::Tensor, at::Tensor>> beside(const at::Tensor& whole) const;
  // Copies each rank's part of `whole` there. What becomes FP8 is rounded as a whole, on the whole's device, so ranks
  // that have columns of a row share the row's scale, and the numbers are the same in any number of parts.
  void put(const at::Tensor& whole) const;
  // On the first rank's device; where there is one rank, its tensor itself. Of FP8 the widened one, in bfloat16.
  at::Tensor whole() const;
};

// Refers to the models.
class Parts {
 public:
  Parts(const Model& whole) : ranks_{&whole} {}  // NOLINT(google-explicit-constructor): one model is the whole
  explicit Parts(std::vector<const Model*> ranks) : ranks_(std::move(ranks)) {}
  explicit Parts(const std::vector<std::unique_ptr<Model>>& ranks);

  int64_t size() const { return std::ssize(ranks_); }
  const Model& operator[](int64_t rank) const { return *ranks_[static_cast<size_t>(rank)]; }
  const Model& first() const { return *ranks_.front(); }
  ModelConfig config() const { return whole_of(first().config(), size()); }
  at::ScalarType dtype() const { return first().dtype(); }
  std::vector<ShardedTensor> tensors() const;  // in the order of Model::named_parameters()
  int64_t elements() const;                    // of the whole, about: what lies between them counts, too

 private:
  std::vector<const Model*> ranks_;
};

// What load_model() would load, a part on each device; all of it where there is one.
std::vector<std::unique_ptr<Model>> load_parts(const fs::path& path, at::ScalarType dtype,
                                               const std::vector<at::Device>& devices, bool fp8_matrices = false);

// Of the whole tensors, as weight_checksums() of one model, without those in FP8: nobody else has these bytes. Of a
// tensor that every rank has, where a rank's differs from the first one's, that one's.
std::map<std::string, std::string> weight_checksums(const Parts& parts);

}  // namespace tritonforge::model
