#include "weights/reshard.h"

#include <fmt/ranges.h>

#include "base/checksum.h"
#include "base/error.h"
#include "kernels/tensor_checksum.h"

namespace tritonforge::weights {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment; }

std::map<std::string, std::vector<int64_t>> shapes_of(const model::ModelConfig& config) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : model::Model(config, at::kFloat, at::kMeta).named_parameters())
    shapes[name] = tensor.sizes().vec();
  return shapes;
}

}  // namespace

std::vector<std::vector<Piece>> transfer_plan(const model::ModelConfig& whole, const SourceLayout& trainer) {
  std::vector<std::vector<Piece>> plan;
  for (int64_t source = 0; source < trainer.sources(); ++source) {
    const model::TensorParallel at = trainer.tensor_parallel(source);
    const model::ModelConfig config = model::stage_of(model::part_of(whole, at.size), trainer.stage(source));
    std::vector<Piece>& pieces = plan.emplace_back();
    for (const auto& [name, tensor] : model::Model(config, at::kFloat, at::kMeta).named_parameters()) {
      // The last stage has the embedding as its head, too: the first one's is sent.
      if (name == model::kTable && !config.embeds()) continue;
      const model::TensorPart mine = model::tensor_part(name, tensor.sizes(), at);
      if (mine.replica && at.rank != 0) continue;  // the first one's is sent
      pieces.push_back({name, tensor.sizes().vec(), mine.whole, mine.dim, mine.begin});
    }
  }
  return plan;
}

std::string plan_checksum(const model::ModelConfig& whole) {
  std::string text;
  for (const auto& [name, shape] : shapes_of(whole)) text += fmt::format("{} {}\n", name, fmt::join(shape, " "));
  return checksum(text);
}

int64_t stream_bytes(const std::vector<Piece>& pieces, at::ScalarType dtype) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += aligned(piece.numel() * static_cast<int64_t>(c10::elementSize(dtype)));
  return bytes;
}

std::vector<at::Tensor> piece_tensors(const std::vector<Piece>& pieces, at::ScalarType dtype,
                                      const at::Tensor& stream) {
  std::vector<at::Tensor> tensors;
  int64_t at = 0;
  for (const Piece& piece : pieces) {
    const int64_t bytes = piece.numel() * static_cast<int64_t>(c10::elementSize(dtype));
    tensors.push_back(stream.narrow(0, at, bytes).view(dtype).view(piece.sizes));
    at += aligned(bytes);
  }
  return tensors;
}

void add_checksums(const std::vector<Piece>& pieces, const std::vector<at::Tensor>& tensors, ChecksumShares& sums) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    uint64_t& sum = sums[piece.name];
    if (piece.sizes == piece.whole) {  // where it lies
      sum += std::stoull(kernels::tensor_checksums({&tensors[i], 1}).front(), nullptr, 16);
      continue;
    }
    // Whole rows lie in one place of the tensor, one after another; of columns, each row in its own.
    const int64_t row = piece.numel() / piece.sizes[0],
                  whole_row = c10::multiply_integers(piece.whole) / piece.whole[0];
    const bool rows = piece.dim == 0;
    const kernels::PartPlace place{.first = rows ? piece.begin * row : piece.begin,
                                   .width = rows ? piece.numel() : row,
                                   .stride = whole_row,
                                   .whole = c10::multiply_integers(piece.whole)};
    sum += kernels::part_checksum(tensors[i].cpu(), place, piece.name);
  }
}

TensorChecksums checksums_of(const ChecksumShares& sums) {
  TensorChecksums texts;
  for (const auto& [name, sum] : sums) texts[name] = fmt::format("{:016x}", sum);
  return texts;
}

}  // namespace tritonforge::weights
