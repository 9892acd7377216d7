#pragma once
// The weights as files that all ranks of a job write beside each other. Of its stage's tensors each rank has some,
// whole: together the files are a Hugging Face folder, and no rank has the model in memory.
#include "model/weight_files.h"
#include "parallel/group.h"

namespace tritonforge::train {

// Of all ranks, each writer by its number, with tensors on the meta device: the same on every rank. Largest first, each
// tensor of a stage goes to that of its ranks which has the fewest bytes so far.
model::WeightFiles shard_files(const model::ModelConfig& whole, at::ScalarType dtype,
                               const parallel::ParallelDims& dims);
// Whether the stage's tensor is in its files: an embedding that is the head, too, is in those of the first one.
bool is_its_own(const std::string& name, const model::ModelConfig& stage);

// The rank's tensors among them; memory for those.
model::NamedTensors shard_of(const model::WeightFiles& files, int64_t rank);
int64_t shard_bytes(const model::WeightFiles& files, int64_t rank);
// The part's own, where it has them whole.
void use_shard(model::WeightFiles& files, int64_t rank, const model::Model& part);
// Puts them one after another into `memory` [shard_bytes()], kByte.
void place_shard(model::WeightFiles& files, int64_t rank, const at::Tensor& memory);
// Fills them there from the ranks' parts of the model. All of groups.tp call it at once. Does not wait for a GPU.
void copy_shard(const model::WeightFiles& files, int64_t rank, const model::Model& part,
                const parallel::Groups& groups);

}  // namespace tritonforge::train
