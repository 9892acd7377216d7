// Matrix products through cuBLASLt with a plan a shape, or through the kernels of gemm_hopper.cu and skinny_gemm.cu
// where those are faster. Row-major y[m, n] = x[m, k] w[n, k]^T is column-major y^T[n, m] = w^T[k, n]^T x^T[k, m]:
// nothing is copied, and a matrix that lies the other way round is one more transposition or one less.
//
// A matrix in FP8 is read as it is by the own kernels; where there are so many rows that reading it is little of the
// work, or no own kernel is for them, it is widened into a scratch first, and the product is one of those of bf16.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/gpu/gemm_hopper.h"

namespace tritonforge::gpu {
namespace {

constexpr int kCandidates = 12;  // of cuBLASLt, that gemm_tune times
constexpr int kTimedRuns = 7;
// The library's kernels do not overlap with what is in front of them and behind: in a step they cost so much more than
// one after another (bench/kernels step).
constexpr float kApart = 1.06f;
constexpr float kNear = 1.06f;  // of the fastest way's time: timed again
constexpr size_t kMostPlans = 4096;
constexpr int64_t kSkinnyRows =
    8;  // up to which the skinny kernel runs, and is what an untuned shape takes: it measured as fast or faster
// Of FP8: up to so many rows widening writes and reads far more than the product needs, and up to so many an untuned
// shape is not widened.
constexpr int64_t kNeverWidenedRows = 64, kMostlyNarrowRows = 128;

int blas(cublasStatus_t status, const char* what) {
  return status == CUBLAS_STATUS_SUCCESS ? 0 : set_error(kBlasFailed, "%s: %s", what, cublasLtGetStatusString(status));
}

// What runs a product.
struct Way {
  enum Kind { kLibrary, kSkinny, kHopper } kind = kLibrary;
  int proposal = 0;  // of the library's
  HopperTile tile = {};
  bool widened = false;  // of FP8
  bool operator==(const Way&) const = default;
};

struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates;  // best first, by cuBLASLt's own estimate
  Way way;
  bool tuned = false;
  std::string text;
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (auto* layout : {w, x, y}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
};
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, uint32_t>;
Key key_of(const GemmArgs& a) {
  uint32_t bits = 0;
  for (const bool bit : {a.bias != nullptr, a.fp32_out, a.accumulate, a.swiglu_scratch != nullptr, a.x_transposed,
                         a.w_transposed, a.addend != nullptr, a.fp8.values != nullptr, a.batch_invariant})
    bits = 2 * bits + (bit ? 1 : 0);
  return {a.m, a.n, a.k, a.x_stride, bits};
}
// Tensors that differ by few rows have one fastest way: a quarter of an octave above kExactRows is one size. Rows are
// m, and k of a weight's gradient.
constexpr int64_t kExactRows = 256;
constexpr int64_t size_of(int64_t rows) {
  if (rows <= kExactRows) return rows;
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows - 1)) / 4);
  return ceil_div(rows, step) * step;
}
static_assert(size_of(256) == 256 && size_of(257) == 320 && size_of(8192) == 8192 && size_of(8193) == 10240);
Key size_key_of(GemmArgs a) {
  a.m = size_of(a.m);
  a.k = size_of(a.k);
  return key_of(a);
}
// What the library alone knows.
bool library_only(const GemmArgs& a) {
  return a.x_transposed || a.w_transposed || a.x_stride != 0 || a.addend != nullptr;
}
bool skinny_can(const GemmArgs& a, int64_t rows) { return a.m <= rows && a.k % 32 == 0 && !library_only(a); }
GemmArgs widened(GemmArgs a) {
  a.w = a.wide;
  a.fp8 = {};
  return a;
}

}  // namespace

// What was the fastest for one of a size.
struct Chosen {
  Way way;
  cublasLtMatmulAlgo_t algorithm = {};  // of the library's way
  std::string text;
};

struct Gemm {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  std::map<Key, std::unique_ptr<Plan>> plans;  // by shape, at most kMostPlans
  std::map<Key, Chosen> chosen;                // by size
};

namespace {

int describe(const Gemm& g, const GemmArgs& a, Plan& p) {
  const cudaDataType_t out = a.fp32_out ? CUDA_R_32F : CUDA_R_16BF;
  const cublasOperation_t of_w = a.w_transposed ? CUBLAS_OP_N : CUBLAS_OP_T,
                          of_x = a.x_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasStatus_t s = cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const auto then = [&s](cublasStatus_t next) { s = s == CUBLAS_STATUS_SUCCESS ? next : s; };
  then(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_w, sizeof of_w));
  then(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, &of_x, sizeof of_x));
  if (a.bias != nullptr) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cudaDataType_t type = CUDA_R_16BF;
    then(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    then(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
    then(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a.bias, sizeof a.bias));
  }
  // As columns: what is neighbours in memory comes first.
  const auto layout = [&](cublasLtMatrixLayout_t* to, int64_t inner, int64_t outer, int64_t stride) {
    then(cublasLtMatrixLayoutCreate(to, CUDA_R_16BF, inner, outer, stride == 0 ? inner : stride));
  };
  layout(&p.w, a.w_transposed ? a.n : a.k, a.w_transposed ? a.k : a.n, 0);
  layout(&p.x, a.x_transposed ? a.m : a.k, a.x_transposed ? a.k : a.m, a.x_stride);
  then(cublasLtMatrixLayoutCreate(&p.y, out, a.n, a.m, a.n));
  if (const int error = blas(s, "gemm: describing the product")) return error;

  cublasLtMatmulPreference_t preference = nullptr;
  s = cublasLtMatmulPreferenceCreate(&preference);
  then(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &g.workspace_bytes,
                                            sizeof g.workspace_bytes));
  int found = 0;
  p.candidates.resize(kCandidates);
  then(cublasLtMatmulAlgoGetHeuristic(g.handle, p.operation, p.w, p.x, p.y, p.y, preference, kCandidates,
                                      p.candidates.data(), &found));
  if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
  p.candidates.resize(static_cast<size_t>(found));
  std::erase_if(p.candidates, [](const auto& c) { return c.state != CUBLAS_STATUS_SUCCESS; });
  if (s == CUBLAS_STATUS_SUCCESS && p.candidates.empty()) s = CUBLAS_STATUS_NOT_SUPPORTED;
  return blas(s, "gemm: cuBLASLt has no algorithm for this shape");
}

int run_library(const Gemm& g, const GemmArgs& a, Plan& p, int candidate, Stream stream) {
  const float one = 1, beta = a.accumulate ? 1 : 0;
  if (a.bias != nullptr) {
    const auto status = cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a.bias,
                                                       sizeof a.bias);
    if (const int error = blas(status, "gemm: bias")) return error;
  }
  return blas(cublasLtMatmul(
                  g.handle, p.operation, &one, a.w, p.w, a.x, p.x, &beta, a.addend != nullptr ? a.addend : a.y, p.y,
                  a.y, p.y, &p.candidates[static_cast<size_t>(candidate)].algo, g.workspace, g.workspace_bytes, stream),
              "gemm");
}

std::string described(const Plan& p, float microseconds) {
  char text[96];
  if (p.way.kind == Way::kSkinny) std::snprintf(text, sizeof text, "skinny kernel");
  else if (p.way.kind == Way::kHopper)
    std::snprintf(text, sizeof text, "own tiles of %d x %d, k in %d", p.way.tile.groups * 64, p.way.tile.tokens,
                  p.way.tile.split);
  else
    std::snprintf(text, sizeof text, "cuBLASLt proposal %d of %d", p.way.proposal + 1,
                  static_cast<int>(p.candidates.size()));
  std::string whole = text;
  if (p.way.widened) whole = "widened, " + whole;
  std::snprintf(text, sizeof text, p.tuned ? ", tuned, %.1f us" : ", not tuned", static_cast<double>(microseconds));
  return whole + text;
}

void add_hopper_ways(const GemmArgs& a, std::vector<Way>& ways) {
  if (!gemm_hopper_can(a) || library_only(a)) return;
  std::array<HopperTile, kMostHopperTiles> tiles;
  const int count = gemm_hopper_tiles(a, tiles.data());
  for (int i = 0; i < count; ++i) ways.push_back({Way::kHopper, 0, tiles[static_cast<size_t>(i)]});
}

// Of a batch-invariant product, untuned: the tiles of which a multiprocessor computes the least, a tile's fetches
// counted as 64 more tokens.
Way way_of_least_work(const std::vector<Way>& ways, const GemmArgs& a) {
  return *std::ranges::min_element(ways, {}, [&](const Way& way) {
    const HopperTile& t = way.tile;
    const int64_t tiles = ceil_div<int64_t>(a.n, t.groups * 64) * ceil_div<int64_t>(a.m, t.tokens);
    return ceil_div<int64_t>(tiles, multiprocessors()) * t.groups * (t.tokens + 64);
  });
}

// Of a matrix in bf16.
std::vector<Way> wide_ways_of(const Plan& p, const GemmArgs& a) {
  std::vector<Way> ways;
  for (int i = 0; i < static_cast<int>(p.candidates.size()); ++i) ways.push_back({Way::kLibrary, i});
  if (skinny_can(a, kSkinnyRows)) ways.push_back({Way::kSkinny});
  add_hopper_ways(a, ways);
  return ways;
}

// The first one is what an untuned shape of FP8 takes.
std::vector<Way> ways_of(const Plan& p, const GemmArgs& a) {
  std::vector<Way> ways;
  if (a.batch_invariant) {
    add_hopper_ways(a, ways);
    return ways;
  }
  if (a.fp8.values == nullptr) return wide_ways_of(p, a);
  if (skinny_can(a, kSkinnyRows)) ways.push_back({Way::kSkinny});
  add_hopper_ways(a, ways);
  if (!ways.empty() && a.m <= kNeverWidenedRows) return ways;
  std::vector<Way> wide = wide_ways_of(p, widened(a));
  for (Way& way : wide) way.widened = true;
  ways.insert(a.m <= kMostlyNarrowRows ? ways.end() : ways.begin(), wide.begin(), wide.end());
  return ways;
}

// As one of its size was tuned, where that way is one of this shape's; it is not timed itself.
void follow(const Gemm& g, const GemmArgs& a, const Chosen& chosen, Plan& p) {
  p.tuned = true;
  Way way = chosen.way;
  if (way.kind == Way::kLibrary) {
    cublasLtMatmulHeuristicResult_t found{};
    if (p.operation == nullptr ||
        cublasLtMatmulAlgoCheck(g.handle, p.operation, p.w, p.x, p.y, p.y, &chosen.algorithm, &found) !=
            CUBLAS_STATUS_SUCCESS ||
        found.state != CUBLAS_STATUS_SUCCESS || found.workspaceSize > g.workspace_bytes)
      return;
    found.algo = chosen.algorithm;
    way.proposal = static_cast<int>(p.candidates.size());
    p.candidates.push_back(found);
  } else if (const std::vector<Way> ways = ways_of(p, a); std::ranges::find(ways, way) == ways.end()) {
    return;
  }
  p.way = way;
  p.text = chosen.text;
}

// What a shape runs by until it is tuned.
int begin_plan(Gemm& g, const GemmArgs& a, Plan& p) {
  if (a.batch_invariant) {
    const std::vector<Way> ways = ways_of(p, a);
    TF_REQUIRE(!ways.empty(), "gemm: no tiles of a Hopper GPU for a batch-invariant product of %ld x %ld x %ld",
               static_cast<long>(a.m), static_cast<long>(a.n), static_cast<long>(a.k));
    p.way = way_of_least_work(ways, a);
    return 0;
  }
  if (const int error = describe(g, a, p)) {
    if (!skinny_can(a, kSkinnyRows)) return error;
    p.candidates.clear();
  }
  if (a.fp8.values != nullptr) p.way = ways_of(p, a).front();
  else if (skinny_can(a, kSkinnyRows) || p.candidates.empty()) p.way.kind = Way::kSkinny;
  return 0;
}

int plan_for(Gemm& g, const GemmArgs& a, Plan** out) {
  TF_REQUIRE(a.n % 8 == 0 && a.k % 8 == 0 && a.m >= 0, "gemm: %ld x %ld x %ld (n and k must be multiples of 8)",
             static_cast<long>(a.m), static_cast<long>(a.n), static_cast<long>(a.k));
  TF_REQUIRE(a.swiglu_scratch == nullptr || (a.n % 16 == 0 && !a.fp32_out && !a.accumulate),
             "gemm: SwiGLU takes bf16 output, no accumulate and an even n / 8, not %ld", static_cast<long>(a.n / 8));
  const bool fp8 = a.fp8.values != nullptr;
  TF_REQUIRE(!fp8 || (a.k % 64 == 0 && !a.fp32_out && !library_only(a) && a.wide != nullptr),
             "gemm: FP8 takes k %ld (a multiple of 64), bf16 output, plain x and y, and room to widen it",
             static_cast<long>(a.k));
  const Key key = key_of(a);
  if (const auto known = g.plans.find(key); known != g.plans.end()) {
    *out = known->second.get();
    return 0;
  }
  auto plan = std::make_unique<Plan>();
  if (const int error = begin_plan(g, a, *plan)) return error;
  plan->text = described(*plan, 0);
  if (const auto chosen = g.chosen.find(size_key_of(a)); chosen != g.chosen.end()) follow(g, a, chosen->second, *plan);
  if (g.plans.size() >= kMostPlans) g.plans.clear();
  *out = g.plans.emplace(key, std::move(plan)).first->second.get();
  return 0;
}

int run(Gemm& g, const GemmArgs& a, Plan& p, const Way& way, Stream stream);

// The own kernels read a matrix before the kernel in front of them has ended, so none may overlap with who writes it.
int run_widened(Gemm& g, const GemmArgs& a, Plan& p, Way way, Stream stream) {
  if (const int error = widen_matrix(a.wide, &a.fp8, a.n, a.k, stream)) return error;
  const bool overlap = overlap_allowed();
  set_overlap(0);
  way.widened = false;
  const int error = run(g, widened(a), p, way, stream);
  set_overlap(overlap);
  return error;
}

// Kernels that know no SwiGLU leave the product in the scratch.
int run(Gemm& g, const GemmArgs& a, Plan& p, const Way& way, Stream stream) {
  if (way.widened) return run_widened(g, a, p, way, stream);
  if (way.kind == Way::kHopper) return gemm_hopper(a, way.tile, stream);
  GemmArgs product = a;
  product.swiglu_scratch = nullptr;
  if (a.swiglu_scratch != nullptr) product.y = a.swiglu_scratch;
  const int error = way.kind == Way::kSkinny ? gemm_skinny(&product, stream)
                                             : run_library(g, product, p, way.proposal, stream);
  if (error != 0 || a.swiglu_scratch == nullptr) return error;
  return swiglu(static_cast<Bf16*>(a.y), a.swiglu_scratch, a.m, a.n / 2, stream);
}

// What products are timed with.
struct Stopwatch {
  void* flush = nullptr;  // overwritten before every run, so that no operand is in the cache
  size_t flush_bytes = 0;
  Event begin = nullptr, end = nullptr;
  Stopwatch() = default;
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    if (begin != nullptr) cudaEventDestroy(begin);
    if (end != nullptr) cudaEventDestroy(end);
    if (flush != nullptr) cudaFree(flush);
  }
  int open() {
    int device = 0, l2 = 0;
    int error = check(cudaGetDevice(&device), "gemm_tune");
    if (error == 0) error = check(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device), "gemm_tune");
    flush_bytes = 2 * static_cast<size_t>(l2);
    if (error == 0) error = check(cudaMalloc(&flush, flush_bytes), "gemm_tune");
    if (error == 0) error = check(cudaEventCreate(&begin), "gemm_tune");
    if (error == 0) error = check(cudaEventCreate(&end), "gemm_tune");
    return error;
  }
};

// Median time of a run of all `count`.
int time_runs(Gemm& g, const GemmArgs* a, int count, Plan& p, const Way& way, const Stopwatch& watch, Stream stream,
              float* microseconds) {
  std::array<float, kTimedRuns> times;
  for (int run_index = -1; run_index < kTimedRuns; ++run_index) {  // the first one loads the kernel
    int error = check(cudaMemsetAsync(watch.flush, 0, watch.flush_bytes, stream), "gemm_tune");
    if (error == 0) error = check(cudaEventRecord(watch.begin, stream), "gemm_tune");
    for (int i = 0; i < count && error == 0; ++i) error = run(g, a[i], p, way, stream);
    if (error == 0) error = check(cudaEventRecord(watch.end, stream), "gemm_tune");
    if (error == 0) error = check(cudaEventSynchronize(watch.end), "gemm_tune");
    float milliseconds = 0;
    if (error == 0) error = check(cudaEventElapsedTime(&milliseconds, watch.begin, watch.end), "gemm_tune");
    if (error != 0) return error;
    if (run_index >= 0) times[static_cast<size_t>(run_index)] = milliseconds * 1e3f / static_cast<float>(count);
  }
  std::nth_element(times.begin(), times.begin() + kTimedRuns / 2, times.end());
  *microseconds = times[kTimedRuns / 2];
  return 0;
}

// The fastest way becomes the plan's. The first ones are timed on a card whose clock still rises, or that is still cool
// where many rows warm it, so those that come near the fastest are timed again, and that time counts.
int choose_way(Gemm& g, const GemmArgs* a, int count, Plan& p, const Stopwatch& watch, Stream stream,
               float* microseconds) {
  struct Timed {
    Way way;
    float taken;
    float counts() const { return way.kind == Way::kLibrary && overlap_allowed() ? taken * kApart : taken; }
    bool operator<(const Timed& other) const { return counts() < other.counts(); }
  };
  std::vector<Timed> all;
  for (const Way& way : ways_of(p, *a)) {
    Timed one{way, 0};
    const int error = time_runs(g, a, count, p, way, watch, stream, &one.taken);
    if (error == kBlasFailed) continue;  // a proposal that this device refuses is no candidate
    if (error != 0) return error;
    all.push_back(one);
  }
  if (all.empty())
    return set_error(kBlasFailed, "gemm_tune: no algorithm runs for %ld x %ld x %ld", static_cast<long>(a->m),
                     static_cast<long>(a->n), static_cast<long>(a->k));
  const float near = kNear * std::min_element(all.begin(), all.end())->counts();
  std::erase_if(all, [&](const Timed& one) { return one.counts() > near; });
  for (Timed& one : all) {
    if (const int error = time_runs(g, a, count, p, one.way, watch, stream, &one.taken)) return error;
  }
  const Timed& fastest = *std::min_element(all.begin(), all.end());
  *microseconds = fastest.taken;
  p.way = fastest.way;
  return 0;
}

}  // namespace

int gemm_open(Gemm** out, void* workspace, size_t bytes) {
  auto made = std::make_unique<Gemm>();
  if (const int error = blas(cublasLtCreate(&made->handle), "gemm_open")) return error;
  made->workspace = workspace;
  made->workspace_bytes = bytes;
  *out = made.release();
  return 0;
}

int gemm_workspace(Gemm* g, void* workspace) {
  g->workspace = workspace;
  return 0;
}

int gemm_close(Gemm* g) {
  if (g == nullptr) return 0;
  const cublasStatus_t status = cublasLtDestroy(g->handle);
  delete g;
  return blas(status, "gemm_close");
}

int gemm_tune(Gemm* g, const GemmArgs* a, int count, Stream stream) {
  Plan* p = nullptr;
  if (const int error = plan_for(*g, *a, &p)) return error;
  if (p->tuned || a->m == 0) return 0;
  Stopwatch watch;
  if (const int error = watch.open()) return error == kOutOfMemory ? 0 : error;  // no room: the first proposal stays
  float best = 0;
  const int error = choose_way(*g, a, count, *p, watch, stream, &best);
  p->tuned = error == 0;
  p->text = described(*p, best);
  if (!p->tuned) return error;
  Chosen& chosen = g->chosen[size_key_of(*a)] = {.way = p->way, .text = p->text};
  if (p->way.kind == Way::kLibrary) chosen.algorithm = p->candidates[static_cast<size_t>(p->way.proposal)].algo;
  return 0;
}

int gemm(Gemm* g, const GemmArgs* a, Stream stream) {
  Plan* p = nullptr;
  if (const int error = plan_for(*g, *a, &p)) return error;
  return a->m == 0 ? 0 : run(*g, *a, *p, p->way, stream);
}

int gemm_library(Gemm* g, const GemmArgs* a, Stream stream) {
  Plan* p = nullptr;
  if (const int error = plan_for(*g, *a, &p)) return error;
  TF_REQUIRE(!p->candidates.empty(), "gemm_library: cuBLASLt has no algorithm for this shape, or is not to be used");
  return run(*g, *a, *p, {.kind = Way::kLibrary, .widened = a->fp8.values != nullptr}, stream);
}

int gemm_hopper_by(const GemmArgs* a, int groups, int tokens, int split, Stream stream) {
  TF_REQUIRE(gemm_hopper_can(*a), "gemm_hopper: %ld x %ld x %ld is not for this kernel or device",
             static_cast<long>(a->m), static_cast<long>(a->n), static_cast<long>(a->k));
  return gemm_hopper(*a, {groups, tokens, split}, stream);
}

const char* gemm_plan(Gemm* g, const GemmArgs* a) {
  const auto found = g->plans.find(key_of(*a));
  return found == g->plans.end() ? "not planned yet" : found->second->text.c_str();
}

}  // namespace tritonforge::gpu
