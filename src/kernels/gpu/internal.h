#pragma once
// What the library's own files share on the host side: the error text and the facts of the current device.
#include <cuda_runtime_api.h>

#include "kernels/gpu/cuda_api.h"

namespace tritonforge::gpu {

constexpr int kBadArgument = -1;  // error numbers that are not CUDA's
constexpr int kBlasFailed = -2;

// Keeps the text for last_error() of this thread and returns `code`.
[[gnu::format(printf, 2, 3)]] int set_error(int code, const char* format, ...);
const char* last_error();
// 0, or the text "WHAT: CUDA's own words".
int check(cudaError_t status, const char* what);
inline int check_launch(const char* kernel) { return check(cudaGetLastError(), kernel); }

int multiprocessors();  // of the current device; asked for once
int compute_major();    // likewise
// Whether a kernel may be launched before the one before it has ended (programmatic dependent launch, from Hopper on).
bool overlap_allowed();
int set_overlap(int on);

// Refuses what a kernel was not written for, naming it: TF_REQUIRE(head_dim == 64, "rope: head_dim %d", ...)
#define TF_REQUIRE(condition, ...)                                                                         \
  do {                                                                                                     \
    if (!(condition)) return ::tritonforge::gpu::set_error(::tritonforge::gpu::kBadArgument, __VA_ARGS__); \
  } while (false)

template <typename T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// The operations, one file each: rows.cu, ranks.cu, rope_cache.cu, decode_attention.cu, decode_attention_cluster.cu,
// prefix_attention.cu, widen_cache.cu, move_blocks.cu, widen_matrix.cu, prefill_attention.cu,
// prefill_attention_hopper.cu, gemm.cpp,
// gemm_hopper.cu, skinny_gemm.cu, sample.cu, checksum.cu, train_rows.cu, head_loss.cu,
// adamw.cu, attention_backward.cu, attention_merge.cu, nccl.cpp.
int embed(Bf16*, const Bf16*, const int32_t*, int64_t, int64_t, Stream);
int gather_rows(Bf16*, const Bf16*, const int32_t*, int64_t, int64_t, Stream);
int rms_norm(Bf16*, const Bf16*, const Bf16*, int64_t, int64_t, float, Stream);
int add_rms_norm(Bf16*, Bf16*, const Bf16*, const Bf16*, int64_t, int64_t, float, Stream);
int swiglu(Bf16*, const Bf16*, int64_t, int64_t, Stream);
int advance(const AdvanceArgs*, Stream);
int join_ranks(const JoinRanksArgs*, Stream);
int embed_ranks(const EmbedRanksArgs*, Stream);
int gather_logits(const GatherLogitsArgs*, Stream);
int meet_ranks(const RankMeeting*, Stream);
int add_parts(const AddPartsArgs*, Stream);
int pick_ids(int32_t*, const int32_t*, const int32_t*, int64_t, Stream);
int rope_table(float*, const float*, int64_t, int64_t, Stream);
int rope_cache(const RopeCacheArgs*, Stream);
int rope_backward(const RopeBackwardArgs*, Stream);
int rms_norm_backward(const RmsNormBackwardArgs*, Stream);
int swiglu_backward(const SwigluBackwardArgs*, Stream);
int embed_backward(const EmbedBackwardArgs*, Stream);
int scatter_rows(Bf16*, const Bf16*, const int32_t*, int64_t, int64_t, Stream);
int bias_backward(const GradientOut*, const Bf16*, float*, int64_t, int64_t, Stream);
size_t attention_backward_workspace(const AttentionBackwardArgs*);
int attention_merge(const AttentionMergeArgs*, Stream);
int attention_backward(const AttentionBackwardArgs*, Stream);
size_t row_sums_bytes(int64_t);
int head_scores(const HeadScoresArgs*, Stream);
int head_gradient(const HeadGradientArgs*, Stream);
int adamw_squares(float*, const void*, int64_t, int, Stream);
int adamw_total(float*, const float*, int64_t, Stream);
int adamw_decide(const AdamwArgs*, Stream);
int adamw(const AdamwArgs*, Stream);
int nccl_id(NcclId*);
int nccl_open(NcclComm**, const NcclId*, int, int);
int nccl_close(NcclComm*);
int nccl_all_reduce(NcclComm*, void*, int64_t, int, Stream);
int nccl_broadcast(NcclComm*, void*, int64_t, int, int, Stream);
int nccl_reduce_scatter(NcclComm*, const NcclShares*, Stream);
int nccl_all_gather(NcclComm*, const NcclShares*, Stream);
int nccl_all_to_all(NcclComm*, void*, const void*, int64_t, int, int, Stream);
int nccl_exchange(NcclComm*, void*, const void*, int64_t, int, int, int, Stream);
int nccl_send(NcclComm*, const void*, int64_t, int, int, Stream);
int nccl_receive(NcclComm*, void*, int64_t, int, int, Stream);
int nccl_open_within(NcclComm**, const NcclId*, int, int, double);
int nccl_broadcast_within(NcclComm*, void*, int64_t, int, double, Stream);
int nccl_look(NcclComm*);
int nccl_abort(NcclComm*);
size_t decode_attention_workspace(int64_t, int64_t, int64_t, int64_t);
int decode_attention(const DecodeAttentionArgs*, Stream);
bool decode_attention_cluster_can(const DecodeAttentionArgs&);
int decode_attention_cluster(const DecodeAttentionArgs&, Stream);
size_t prefix_attention_pieces(int64_t, int64_t, int64_t, int64_t);
int prefix_attention(const PrefixAttentionArgs*, Stream);
int widen_cache(const WidenCacheArgs*, Stream);
int move_blocks(const MoveBlocksArgs*, Stream);
int prefill_attention(const PrefillAttentionArgs*, Stream);
bool prefill_attention_hopper_can(const PrefillAttentionArgs&);
int prefill_attention_hopper(const PrefillAttentionArgs&, Stream);
int gemm_open(Gemm**, void*, size_t);
int gemm_workspace(Gemm*, void*);
int gemm_close(Gemm*);
int gemm_tune(Gemm*, const GemmArgs*, int, Stream);
int gemm(Gemm*, const GemmArgs*, Stream);
int gemm_library(Gemm*, const GemmArgs*, Stream);
const char* gemm_plan(Gemm*, const GemmArgs*);
int gemm_skinny(const GemmArgs*, Stream);
int widen_matrix(Bf16*, const Fp8Weights*, int64_t, int64_t, Stream);
int gemm_hopper_by(const GemmArgs*, int, int, int, Stream);
size_t sample_workspace(int64_t);
int sample(const SampleArgs*, Stream);
int checksum(uint64_t*, const void*, size_t, Stream);

}  // namespace tritonforge::gpu
