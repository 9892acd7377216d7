#include "train/cpu/matrix.h"

#include "kernels/fused_rows.h"

namespace tritonforge::train::cpu {
namespace {

// A tile of a weight's gradient and the tokens that go into it at once stay in the second cache. Where that leaves
// threads without one, tiles are smaller: no sum depends on it.
constexpr int64_t kRows = 288, kFewestRows = 48, kColumns = 512, kTokens = 128, kTilesAThread = 3;

struct Tile {
  const WeightGradient* gradient;
  int64_t row, rows, column, columns;
};

void add_product(const Tile& tile) {
  thread_local kernels::Panels panels;
  const WeightGradient& g = *tile.gradient;
  const int64_t stride = g.weight.stride(0);
  float* to = g.weight.data_ptr<float>() + tile.row * stride + tile.column;
  for (int64_t begin = 0; begin < g.tokens; begin += kTokens) {
    const int64_t count = std::min(kTokens, g.tokens - begin);
    panels.assign(g.x + begin * g.x_stride + tile.column, g.x_stride, count, tile.columns);
    kernels::multiply({g.dy + begin * g.dy_stride + tile.row, g.dy_stride, tile.rows, true}, panels, to, stride,
                      {.add = true});
  }
}

void add_rows(const Tile& tile) {
  const WeightGradient& g = *tile.gradient;
  float* to = g.weight.data_ptr<float>();
  for (int64_t t = 0; t < g.tokens; ++t) {
    kernels::add(to + tile.row, g.dy + t * g.dy_stride + tile.row, tile.rows);
  }
}

std::vector<Tile> tiles_of(const std::vector<WeightGradient>& gradients, int64_t rows) {
  std::vector<Tile> tiles;
  for (const WeightGradient& gradient : gradients) {
    const bool bias = gradient.weight.dim() == 1;
    const int64_t out = gradient.weight.size(0), in = bias ? 1 : gradient.weight.size(1);
    for (int64_t r = 0; r < out; r += rows) {
      for (int64_t column = 0; column < in; column += kColumns)
        tiles.push_back({&gradient, r, std::min(rows, out - r), column, std::min(kColumns, in - column)});
    }
  }
  return tiles;
}

}  // namespace

void add_weight_gradients(const std::vector<WeightGradient>& gradients) {
  std::vector<Tile> tiles = tiles_of(gradients, kRows);
  for (int64_t rows = kRows / 2; rows >= kFewestRows && std::ssize(tiles) < kTilesAThread * kernels::thread_count();
       rows /= 2) {
    tiles = tiles_of(gradients, rows);
  }
  over_parts(std::ssize(tiles), [&](int64_t i) {
    const Tile& tile = tiles[static_cast<size_t>(i)];
    tile.gradient->weight.dim() == 1 ? add_rows(tile) : add_product(tile);
  });
}

void BlockSums::start(int64_t blocks, int64_t width) { sums_ = at::zeros({blocks, width}, at::kFloat); }

void BlockSums::add_to(const at::Tensor& gradient) const { gradient.add_(sums_.sum(0)); }

}  // namespace tritonforge::train::cpu
