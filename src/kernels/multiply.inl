// Products of fp32 matrices, of kernels/multiply.h. Included by cpu_kernels.inl, compiled for each instruction set.
// A tile of the result stays in registers while the inner dimension passes by: each of its elements is one chain of
// multiply-adds in the order of that dimension, whatever the tile's size.
#if defined(__AVX512F__)
constexpr int kTileRows = 12;  // x 32 columns: 24 of 32 registers
#else
constexpr int kTileRows = 3;  // x 32 columns: 12 of AVX2's 16 registers
#endif
constexpr int64_t kRowsTogether = 48;    // that meet a panel before the next one does
constexpr int64_t kInnerTogether = 512;  // of a panel: 64 KiB

// R rows, P panels of 32 columns. `a`: the first row; `panel`: the first of P that lie `panel_stride` apart.
template <int R, int P, bool kAcross>
TF_INLINE void tile(const float* a, int64_t stride, const float* panel, int64_t panel_stride, int64_t inner, float* c,
                    int64_t c_stride, bool add) {
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < 2 * P; ++j) __builtin_prefetch(c + r * c_stride + 16 * j, 1);
  }
  constexpr int kParts = 32 / kLanes;  // of a panel
  Lanes sums[R][kParts * P];
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < kParts * P; ++j) sums[r][j] = add ? load_lanes(c + r * c_stride + kLanes * j) : Lanes{};
  }
  // Every third row has a pointer: the two behind it are one and two strides away, which an address can say.
  constexpr int kPointers = kAcross ? 1 : (R + 2) / 3;
  const float* rows[kPointers];
  for (int i = 0; i < kPointers; ++i) rows[i] = a + 3 * i * stride;
#pragma GCC unroll 1
  for (int64_t i = 0; i < inner; ++i) {
    Lanes columns[kParts * P];
    for (int j = 0; j < kParts * P; ++j)
      columns[j] = load_lanes(panel + (j / kParts) * panel_stride + 32 * i + kLanes * (j % kParts));
    for (int r = 0; r < R; ++r) {
      const float x = kAcross ? rows[0][r] : rows[r / 3][(r % 3) * stride];
      for (int j = 0; j < kParts * P; ++j) sums[r][j] += columns[j] * x;
    }
    if (kAcross) __builtin_prefetch(rows[0] + 8 * stride);
    for (int p = 0; p < kPointers; ++p) rows[p] += kAcross ? stride : 1;
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < kParts * P; ++j) store_lanes(c + r * c_stride + kLanes * j, sums[r][j]);
  }
}

// `count` panels, several at once where the rows alone would leave multiply-adds waiting for each other.
template <int R, bool kAcross>
void tile_row(const float* a, int64_t stride, const float* panel, int64_t panel_stride, int64_t inner, float* c,
              int64_t c_stride, int64_t count, bool add) {
  constexpr int kTogether = R <= kTileRows / 4 ? 4 : (R <= kTileRows / 2 ? 2 : 1);
  int64_t p = 0;
  for (; p + kTogether <= count; p += kTogether) {
    tile<R, kTogether, kAcross>(a, stride, panel + p * panel_stride, panel_stride, inner, c + 32 * p, c_stride, add);
  }
  for (; p < count; ++p)
    tile<R, 1, kAcross>(a, stride, panel + p * panel_stride, panel_stride, inner, c + 32 * p, c_stride, add);
}
template <int R, bool kAcross>
void tile_rows(int64_t rows, const float* a, int64_t stride, const float* panel, int64_t panel_stride, int64_t inner,
               float* c, int64_t c_stride, int64_t count, bool add) {
  if (rows == R) return tile_row<R, kAcross>(a, stride, panel, panel_stride, inner, c, c_stride, count, add);
  if constexpr (R > 1) {
    tile_rows<R - 1, kAcross>(rows, a, stride, panel, panel_stride, inner, c, c_stride, count, add);
  }
}

// The last panel's columns that the result does not have are computed beside it.
template <bool kAcross>
void edge_rows(int64_t rows, const float* a, int64_t stride, const float* panel, int64_t inner, float* c,
               int64_t c_stride, int64_t columns, bool add) {
  float edge[kTileRows * 32] = {};
  for (int64_t r = 0; add && r < rows; ++r)
    __builtin_memcpy(edge + 32 * r, c + r * c_stride, static_cast<unsigned long>(columns) * sizeof(float));
  tile_rows<kTileRows, kAcross>(rows, a, stride, panel, 0, inner, edge, 32, 1, add);
  for (int64_t r = 0; r < rows; ++r)
    __builtin_memcpy(c + r * c_stride, edge + 32 * r, static_cast<unsigned long>(columns) * sizeof(float));
}

template <bool kAcross>
void multiply_all(const MultiplyArgs& m) {
  const int64_t step = kAcross ? 1 : m.a_stride;  // from one row to the next
  const int64_t full = m.columns / 32, panel_stride = 32 * m.panel_inner;
  for (int64_t first = 0; first < m.inner || first == 0; first += kInnerTogether) {
    const int64_t inner = m.inner - first < kInnerTogether ? m.inner - first : kInnerTogether;
    const float* a = m.a + first * (kAcross ? m.a_stride : 1);
    const float* panels = m.panels + 32 * first;
    const bool add = m.add || first > 0;
    for (int64_t begin = 0; begin < m.rows; begin += kRowsTogether) {
      const int64_t some = m.rows - begin < kRowsTogether ? m.rows - begin : kRowsTogether;
      const int64_t parts = (some + kTileRows - 1) / kTileRows;
      // Few rows: a tile takes all panels, several at once. Many: a panel stays in the first cache for all tiles.
      const int64_t together = parts == 1 ? (full > 0 ? full : 1) : 1;
      for (int64_t p = 0; p < full; p += together) {
        for (int64_t part = 0; part < parts; ++part) {
          const int64_t row = begin + some * part / parts, rows = begin + some * (part + 1) / parts - row;
          tile_rows<kTileRows, kAcross>(rows, a + row * step, m.a_stride, panels + p * panel_stride, panel_stride,
                                        inner, m.c + row * m.c_stride + 32 * p, m.c_stride, together, add);
          if (!kAcross && p == 0) {  // the rows of the tile after it come from afar
            const int64_t next = row + rows, last = next + kTileRows < m.rows ? next + kTileRows : m.rows;
            for (int64_t r = next; r < last; ++r) {
              for (int64_t i = 0; i < inner; i += 16) __builtin_prefetch(a + r * step + i, 0, 2);
            }
          }
        }
      }
      for (int64_t part = 0; part < parts && 32 * full < m.columns; ++part) {
        const int64_t row = begin + some * part / parts, rows = begin + some * (part + 1) / parts - row;
        edge_rows<kAcross>(rows, a + row * step, m.a_stride, panels + full * panel_stride, inner,
                           m.c + row * m.c_stride + 32 * full, m.c_stride, m.columns - 32 * full, add);
      }
    }
  }
}

void multiply(const MultiplyArgs& m) { m.across ? multiply_all<true>(m) : multiply_all<false>(m); }
