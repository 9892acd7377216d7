#pragma once
// The optimizer's state in a checkpoint: optimizer.safetensors, or a file a rank, optimizer-00001-of-00004.safetensors,
// with the pieces that it had. Whatever wrote them, any rank of any other layout finds its own pieces in them.
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/weights.h"
#include "train/optimizer.h"

namespace tritonforge::train {

// Writes the rank's file. Returns the checksums of its tensors, under names that are theirs alone among all files.
Json write_optimizer(const StatePieces& pieces, const fs::path& folder, int64_t rank, int64_t ranks);

class OptimizerFiles {
 public:
  // `written`: the checksums of all files. Throws kCorrupt naming the file.
  OptimizerFiles(const fs::path& folder, Json written);
  // Copies what belongs to the piece into its values. Throws kCorrupt naming tensor and file where a part of it is in
  // none of the files, has another dtype or shape, or is damaged.
  void read(const StatePiece& to);

 private:
  struct Part {
    const model::SafetensorsFile* file;
    std::string name;  // the tensor there
    ElementRange elements;
    std::vector<int64_t> shape;  // of the whole
    bool verified = false;
  };
  void verify(Part& part, const at::Tensor& values);
  const fs::path folder_;
  const Json written_;
  std::vector<std::unique_ptr<model::SafetensorsFile>> files_;
  std::map<std::string, std::vector<Part>> parts_;  // by the tensor's name
};

}  // namespace tritonforge::train
