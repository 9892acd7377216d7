#pragma once
// The table of functions of libtritonforge_cuda.so, all that the rest of the program knows of CUDA: raw device
// pointers, sizes and a stream, neither ATen nor CUDA headers. open_cuda_library() (kernels/gpu/cuda_library.h) returns
// it.
//
// Conventions
//  - Every function returns 0, or an error number with a one-line text in last_error() (of the calling thread). Nothing
//  throws.
//  - Pointers are device memory unless named host_*. `Bf16*` holds bfloat16; matrices are row-major without gaps and
//    start at multiples of 16 bytes; row lengths (hidden, intermediate, head_dim) are multiples of 8.
//  - Operations are queued on `stream` of the calling thread's current device, allocate nothing, wait for nothing and
//    may be captured in a graph. Numbers that may change between two launches of a graph (lengths, positions, slots,
//    block tables, seeds) are read on the device; what a struct passes by value is frozen in the graph.
//  - Padded rows: ids, positions and slots 0 (block 0 is nobody's), length 0. They cost little and harm nobody.
//  - Results do not depend on the order in which blocks run: the same launch gives the same bits.
//  - Workspaces are filled with zeros once by their owner; every launch leaves their counters at zero again. Two
//    launches that may overlap (two streams) need two workspaces.
#include <cstddef>
#include <cstdint>

#include "kernels/gpu/train_args.h"

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace tritonforge::gpu {

constexpr int kCudaAbi = 17;     // raised whenever the table or one of its structs changes
constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation
constexpr int kRankGone = 1006;  // NCCL's: a connection to another rank broke
constexpr int kPage = 16;        // tokens in a block of the KV cache
// Query heads of all members of a group in prefix_attention(): so many members times heads / kv_heads at most.
constexpr int kPrefixColumns = 32;
constexpr int kMostRanks = 8;  // of tensor parallelism, and that copy from each other's memory

using Stream = CUstream_st*;  // cudaStream_t, cudaEvent_t, cudaGraphExec_t
using Event = CUevent_st*;
using Graph = CUgraphExec_st*;

struct DeviceProperties {
  char name[64];
  int compute_major, compute_minor, multiprocessors;
  int64_t l2_bytes, memory_bytes, shared_bytes_per_multiprocessor;
  double memory_bandwidth;  // bytes/s by the data sheet's clock and width; 0 where the driver does not tell
};

// Memory that another process of this host may map: the allocation, and where in it the memory begins.
struct IpcHandle {
  char bytes[64];  // cudaIpcMemHandle_t
  uint64_t offset;
};

// NCCL: the name of a group that its first rank makes, a rank's place in it, and a tensor in shares, bf16 or fp32: rank
// r's are `share` elements from r * share on, and all that is left of `count` the last one's, too.
struct NcclId {
  char bytes[128];
};
struct NcclComm;
struct NcclShares {
  void* x;
  int64_t count, share;
  int rank, ranks;
  bool fp32;
};

// The KV cache of one layer: keys and values [blocks, kv_heads, kPage, head_dim] each. A block of one head is 4 KB at
// head_dim 128: one contiguous read. Token t of a sequence lies in block block_tables[t / kPage] at place t % kPage;
// its slot is block * kPage + place. What lies beyond a sequence's length is never used, be it NaN.
// With scales it is FP8 (kernels/fp8.h), a byte an element: within 16 neighbours of a row, element i + 8 h lies at 2 i
// + h, which is where tensor cores want it.
struct KvLayer {
  void *keys, *values;        // bf16, or e4m3
  uint8_t* scales = nullptr;  // [blocks, kv_heads, 2, kPage]: of the rows of keys, of values
};

// qk-norm (optional), RoPE and the KV write of the new tokens, in FP8 rounded from bf16; without slots keys go to rows,
// cache.keys [tokens, kv_heads, head_dim] bf16, and values stay where they are.
struct RopeCacheArgs {
  const Bf16* qkv;                   // [tokens, (heads + 2 kv_heads) * head_dim]: the joined projection, biases added
  Bf16* q;                           // out [tokens, heads, head_dim]
  KvLayer cache;                     // out: slot of each token
  const Bf16 *q_norm, *k_norm;       // [head_dim], or null for both: norm(x) = weight * round(x / rms)
  const float* rope;                 // rope_table()
  const int32_t *positions, *slots;  // [tokens]; slots may be null
  int64_t tokens, heads, kv_heads, head_dim;
  float eps;
};

// Sequences that begin with the same pages of the cache, each with one new token: attention to those pages alone, read
// once a group. head_dim 64 or 128; heads / kv_heads up to 16.
struct PrefixAttentionArgs {
  const Bf16* q;  // [sequences, heads, head_dim]
  KvLayer cache;
  const int32_t* block_tables;  // [sequences, table_width]
  const int32_t* prefix_pages;  // [sequences]: pages that the members of its group begin with, equal within a group
  const int32_t* group_starts;  // [groups + 1], cumulative: group g is members[group_starts[g] ... group_starts[g + 1])
  const int32_t* members;       // rows; each in one group at most. Padded groups are empty
  int64_t groups, table_width, heads, kv_heads, head_dim;
  float scale;
  float* pieces;  // out, of the members: prefix_attention_pieces() bytes
};

// One new token a sequence. head_dim 64 or 128; heads / kv_heads up to 16.
struct DecodeAttentionArgs {
  const Bf16* q;  // [sequences, heads, head_dim]
  Bf16* out;      // [sequences, heads, head_dim]; zeros where length is 0
  KvLayer cache;
  const int32_t* block_tables;  // [sequences, table_width]
  // [sequences]: cached tokens, the new one included (it is in the cache already). With overlap, lengths, tables and
  // what lies more than 65 tokens (one and its drafts) before a sequence's end are read before the kernel in front has
  // ended.
  const int32_t* lengths;
  // What prefix_attention() has done, or null for both: its pages of each sequence (0: none; the page of the new token
  // is never among them) and its pieces.
  const int32_t* prefix_pages;  // [sequences]
  const float* prefix_pieces;
  int64_t sequences, table_width, heads, kv_heads, head_dim;  // sequences: padded, at most 1024
  float scale;
  void* workspace;  // decode_attention_workspace() bytes
};

// The pages of some sequences of an FP8 cache, exactly, as pages of a bf16 cache: for prefill_attention().
struct WidenCacheArgs {
  KvLayer from, to;
  const int32_t *from_tables, *to_tables;  // [sequences, table_width]
  const int32_t* lengths;                  // [sequences]: cached tokens
  int64_t sequences, table_width, kv_heads, head_dim;
};

// Blocks of the cache to places of the host's, or back. Layer l lies l * layer_bytes behind the first one; a block has
// page_bytes of keys in each, as many of values, and scale_bytes of scales (0 where it is not FP8).
constexpr int kBlocksMoved = 256;  // at most at once
struct MoveBlocksArgs {
  KvLayer first;
  int64_t layers, layer_bytes, page_bytes, scale_bytes;
  uint8_t* host;  // [places, layers, 2 page_bytes + scale_bytes], pinned
  bool to_host;
  int64_t count;
  struct Move {
    int32_t block, place;
  } moves[kBlocksMoved];
};

// Several new tokens a sequence, after a cached prefix: token i of sequence s (rows query_starts[s] ...) attends to the
// keys 0 .. lengths[s] - count + i, count = query_starts[s + 1] - query_starts[s]. Rows of no sequence are not written.
struct PrefillAttentionArgs {
  const Bf16* q;                // [tokens, heads, head_dim]
  Bf16* out;                    // [tokens, heads, head_dim]
  KvLayer cache;                // bf16
  const int32_t* block_tables;  // [sequences, table_width]
  const int32_t* query_starts;  // [sequences + 1], cumulative
  const int32_t* lengths;       // [sequences]: cached tokens, the new ones included
  int64_t tokens, sequences, table_width, heads, kv_heads, head_dim;
  int64_t longest_query;  // at least the largest count; bounds the grid
  float scale;
  int32_t* workspace;  // [2]
  // Out [tokens, heads], or null: log2 of the sum over keys of exp(score), for attention_backward(). On Hopper only.
  float* statistics;
  // Each query sees all of its sequence's `lengths`, not those up to its own alone; where there is none, nothing is
  // written for the sequence. On Hopper only.
  bool full;
};

// A matrix [n, k] in FP8, in lane order (kernels/fp8_matrix.h); k a multiple of 64.
struct Fp8Weights {
  const uint8_t* values = nullptr;  // e4m3; null: there is none
  const float* scales = nullptr;    // [n], powers of two
};

// y[m, n] = x[m, k] w[n, k]^T (+ bias[n]) (+ addend where accumulate): products and sums in fp32, rounded once at the
// end.
struct GemmArgs {
  void* y;  // [m, n] bf16, or fp32 where fp32_out
  const Bf16 *x, *w;
  const Bf16* bias;  // [n] or null
  int64_t m, n, k;   // n and k multiples of 8
  bool fp32_out, accumulate;
  // Not null: y [m, n / 2] is the SwiGLU of the product's two halves, each rounded to bf16. bf16 output without
  // accumulate; n / 2 a multiple of 8. [m, n], written where no kernel does both at once.
  Bf16* swiglu_scratch;
  // What a backward pass needs besides: x lies as [k, m], w as [k, n]; so many elements from one of x's rows to the
  // next (0: no gaps); what is added, of y's shape and type (null: y itself).
  bool x_transposed, w_transposed;
  int64_t x_stride;
  const void* addend;
  // In w's place, with bf16 output and none of what a backward pass needs; the numbers are those of the widened matrix.
  // wide [n, k]: scratch, written where many rows make it worth to widen the matrix first.
  Fp8Weights fp8;
  Bf16* wide;
  // Each number of y is summed over k in one order, whatever m is and whichever rows stand beside it: the same bits in
  // every batch. By gemm_hopper.cu's tiles alone, so on Hopper, and without what a backward pass needs. Where it
  // accumulates, the product is rounded to bf16 before it is added, so the same bits as by add_rms_norm().
  bool batch_invariant;
};
struct Gemm;  // cuBLASLt handle, its plans and its workspace: of one device and one stream at a time

// One token from each row of logits: kernels/sample.h with the same noise, so the same token for the same logits, seed
// and position wherever the two best scores of the race differ by more than rounding (a few 1e-7 of their size).
struct SampleArgs {
  const float* logits;  // [rows, vocab]
  int64_t rows, vocab;
  const float *temperature, *top_p, *min_p;  // [rows]; temperature 0: greedy
  const int32_t* top_k;                      // [rows]; <= 0: all
  const uint64_t *seed, *position;           // [rows]
  int32_t* tokens;                           // out [rows]; -1: the logits were not finite
  float* log_probs;  // out [rows]: of softmax(logits / temperature) before cuts (temperature 0: of softmax(logits))
  bool cuts;         // false: no row asks for top_k, top_p or min_p, and the second kernel is left out
  void* workspace;   // sample_workspace() bytes
};

// The next decode step's inputs from this one's tokens, all [sequences]: for each row of length > 0
//   ids = tokens; positions = lengths; slots = place of that position in the block table; lengths += 1.
// Rows of length 0 are left as they are. A row whose table has no room left (position / kPage >= table_width) gets slot
// 0.
struct AdvanceArgs {
  const int32_t* tokens;
  int32_t *ids, *positions, *slots, *lengths;
  const int32_t* block_tables;  // [sequences, table_width]
  int64_t sequences, table_width;
};

// A place in the order of a step at which the kernels of tensor-parallel ranks, one on each of several GPUs, wait for
// each other: each tells the others its step's number and goes on once it has theirs. All have the same order of
// meetings; memory that a rank gives to be read at one may be written again behind the next one.
struct RankMeeting {
  uint32_t* flags[kMostRanks];  // each rank's own: [ranks], zeros at first; this meeting's alone
  const uint32_t* number;       // of the step, on the device: larger at every step, the same for all ranks
  uint32_t later;               // added to it, for one that is met several times in a step
  const uint32_t* stop;         // pinned host memory: where it is not 0, nobody waits, and results have no meaning
  int32_t rank, ranks;
};

// x += the sum of the ranks' deltas (in fp32, in their order; then as add_rms_norm): the same bits for each.
struct JoinRanksArgs {
  RankMeeting meeting;
  const Bf16* deltas[kMostRanks];  // [rows, d]; each rank's own is among them
  Bf16 *out, *x;
  const Bf16* weight;
  int64_t rows, d;
  float eps;
};

// x = the ranks' parts of a sum, added in their order in fp32 and rounded once: the same bits on every run, of two
// ranks NCCL's.
struct AddPartsArgs {
  void* x;                        // bf16 or fp32
  const void* parts[kMostRanks];  // one of them may be x itself
  int32_t ranks;
  bool fp32;
  int64_t count;  // a multiple of 8
};

// The rows of a table that lies in parts, as embed(): no meeting, nobody writes it.
struct EmbedRanksArgs {
  Bf16* out;                       // [tokens, hidden]
  const Bf16* tables[kMostRanks];  // [table_rows, hidden]
  const int32_t* ids;
  int64_t tokens, hidden, table_rows;
};

// Logits of each rank's part of the vocabulary, side by side.
struct GatherLogitsArgs {
  RankMeeting meeting;
  const float* parts[kMostRanks];  // [rows, part]
  float* logits;                   // [rows, ranks * part]
  int64_t rows, part;              // part: a multiple of 4
};

struct CudaApi {
  int abi;  // kCudaAbi of the library
  const char* (*last_error)();

  // Devices and memory.
  int (*device_count)(int* count);
  int (*set_device)(int device);  // of the calling thread
  int (*device_properties)(int device, DeviceProperties* out);
  int (*memory_info)(size_t* free, size_t* total);
  int (*allocate)(void** out, size_t bytes);
  int (*release)(void* pointer);
  int (*allocate_pinned)(void** host_out,
                         size_t bytes);  // mapped: kernels may read and write it under the same address
  int (*release_pinned)(void* host_pointer);
  int (*pin)(void* host, size_t bytes);  // memory that is there already, as allocate_pinned()'s from now on
  int (*unpin)(void* host);
  int (*ipc_get)(void* pointer, IpcHandle* out);  // of memory of cudaMalloc, allocate()'s and libtorch's
  // The allocation's begin as this process sees it (the memory itself is at handle->offset). Not in the process that it
  // is of. What was opened keeps the memory alive until ipc_close(), also where its owner ends.
  int (*ipc_open)(const IpcHandle* handle, void** out);
  int (*ipc_close)(void* begin);
  // Whether kernels on `device` can read and write memory of `other`; and that those of the calling thread's device may
  // from now on, what allocate() and libtorch give of it.
  int (*peer_can)(int device, int other, int* can);
  int (*peer_enable)(int other);

  // Streams, events, copies.
  int (*stream_create)(Stream* out, int high_priority);  // non-blocking: not ordered with the legacy stream
  int (*stream_destroy)(Stream stream);
  int (*stream_synchronize)(Stream stream);
  int (*stream_wait)(Stream stream, Event event);
  int (*event_create)(Event* out, int timing);
  int (*event_destroy)(Event event);
  int (*event_record)(Event event, Stream stream);
  int (*event_synchronize)(Event event);
  int (*event_done)(Event event, int* done);  // does not wait
  int (*event_elapsed)(Event begin, Event end, float* milliseconds);
  int (*copy)(void* to, const void* from, size_t bytes, Stream stream);  // any direction; host memory should be pinned
  int (*fill)(void* to, int byte, size_t bytes, Stream stream);
  // Device memory, of this GPU or mapped: by the copy engines, beside kernels, of which none loses a multiprocessor. In
  // any order among each other.
  int (*copy_beside)(void* const* to, const void* const* from, const size_t* bytes, size_t count, Stream stream);
  // Between the streams of several processes, over pinned memory that they share: sets `flag` once what was queued
  // before is done and seen by all; holds the stream up until it is `value` or up to 2^31 - 1 more.
  int (*stream_tell)(uint32_t* host_flag, uint32_t value, Stream stream);
  int (*stream_await)(uint32_t* host_flag, uint32_t value, Stream stream);

  // Named ranges of the calling thread for profilers (NVTX), nested. Next to nothing where none looks on.
  int (*range_begin)(const char* name);
  int (*range_end)();

  // Graphs. Capture is of the calling thread; between begin and end only the operations of this table may be queued.
  int (*capture_begin)(Stream stream);
  // Instantiated and uploaded; nodes: its kernels and copies, or null.
  int (*capture_end)(Stream stream, Graph* out, int64_t* nodes);
  int (*graph_launch)(Graph graph, Stream stream);
  int (*graph_destroy)(Graph graph);

  // Rows.
  int (*embed)(Bf16* out, const Bf16* table, const int32_t* ids, int64_t tokens, int64_t hidden, Stream);
  int (*gather_rows)(Bf16* out, const Bf16* x, const int32_t* rows, int64_t count, int64_t hidden, Stream);
  int (*rms_norm)(Bf16* out, const Bf16* x, const Bf16* weight, int64_t rows, int64_t d, float eps, Stream);
  // x += delta (rounded to bf16), then out = norm(x). x is the residual stream, updated in place.
  int (*add_rms_norm)(Bf16* out, Bf16* x, const Bf16* delta, const Bf16* weight, int64_t rows, int64_t d, float eps,
                      Stream);
  int (*swiglu)(Bf16* out, const Bf16* gate_up, int64_t rows, int64_t intermediate,
                Stream);  // [rows, 2 * intermediate]: gate, then up
  int (*advance)(const AdvanceArgs*, Stream);
  // ids[i] = tokens[sources[i]] where sources[i] >= 0 (0 where that token is -1); others stay. All int32: a step's ids
  // whose tokens the host has not read yet.
  int (*pick_ids)(int32_t* ids, const int32_t* tokens, const int32_t* sources, int64_t count, Stream);

  // Tensor-parallel ranks, on the GPUs of one process.
  int (*embed_ranks)(const EmbedRanksArgs*, Stream);
  int (*join_ranks)(const JoinRanksArgs*, Stream);
  int (*gather_logits)(const GatherLogitsArgs*, Stream);
  int (*meet_ranks)(const RankMeeting*, Stream);  // no more than that
  int (*add_parts)(const AddPartsArgs*, Stream);  // of ranks in several processes, too: it meets nobody

  // Attention. rope: [positions, head_dim / 2, 2] fp32, cos and sin of position * inv_freq, inv_freq [head_dim / 2]
  // fp32.
  int (*rope_table)(float* rope, const float* inv_freq, int64_t positions, int64_t head_dim, Stream);
  int (*rope_cache)(const RopeCacheArgs*, Stream);
  size_t (*decode_attention_workspace)(int64_t max_sequences, int64_t heads, int64_t kv_heads, int64_t head_dim);
  int (*decode_attention)(const DecodeAttentionArgs*, Stream);
  size_t (*prefix_attention_pieces)(int64_t max_sequences, int64_t heads, int64_t kv_heads, int64_t head_dim);
  int (*prefix_attention)(const PrefixAttentionArgs*, Stream);
  int (*widen_cache)(const WidenCacheArgs*, Stream);
  int (*move_blocks)(const MoveBlocksArgs*, Stream);
  int (*prefill_attention)(const PrefillAttentionArgs*, Stream);

  // Matrix products. `workspace` is the caller's (32 MiB suit Hopper) and stays his. A shape not tuned before runs by
  // cuBLASLt's first proposal or, at few rows, by the kernel of skinny_gemm.cu. gemm_tune() times the candidates on the
  // tensors given (y is overwritten) and keeps the fastest for this shape (m, n, k, bias and the output's kind) and for
  // those that differ from it by few rows, which are not timed themselves; it waits for the stream, so call it at
  // warm-up and not under capture. `count` products of one shape, of several layers, run one after another, as what a
  // kernel does while another ends counts too.
  int (*gemm_open)(Gemm** out, void* workspace, size_t bytes);
  // From now on another workspace of the same size, or none (null) until the next product.
  int (*gemm_workspace)(Gemm*, void* workspace);
  int (*gemm_close)(Gemm*);
  int (*gemm_tune)(Gemm*, const GemmArgs*, int count, Stream);
  int (*gemm)(Gemm*, const GemmArgs*, Stream);
  int (*gemm_library)(Gemm*, const GemmArgs*, Stream);  // cuBLASLt's first proposal, for comparison
  int (*gemm_skinny)(const GemmArgs*, Stream);          // m <= 8, k a multiple of 32
  int (*widen_matrix)(Bf16* wide, const Fp8Weights*, int64_t n, int64_t k, Stream);  // exactly
  // By the kernel of gemm_hopper.cu, in tiles of groups * 64 rows of w and `tokens` rows of x, k shared by `split`
  // blocks.
  int (*gemm_hopper)(const GemmArgs*, int groups, int tokens, int split, Stream);
  const char* (*gemm_plan)(Gemm*, const GemmArgs*);  // host text: what gemm() runs for this shape

  // The trainer: train_args.h.
  int (*rms_norm_backward)(const RmsNormBackwardArgs*, Stream);
  int (*swiglu_backward)(const SwigluBackwardArgs*, Stream);
  int (*rope_backward)(const RopeBackwardArgs*, Stream);
  int (*embed_backward)(const EmbedBackwardArgs*, Stream);
  int (*scatter_rows)(Bf16* out, const Bf16* from, const int32_t* rows, int64_t count, int64_t hidden, Stream);
  // Sums of dy's columns [width]; partials: scratch of row_sums_bytes(width).
  int (*bias_backward)(const GradientOut*, const Bf16* dy, float* partials, int64_t rows, int64_t width, Stream);
  size_t (*attention_backward_workspace)(const AttentionBackwardArgs*);  // sizes alone count
  int (*attention_merge)(const AttentionMergeArgs*, Stream);
  int (*attention_backward)(const AttentionBackwardArgs*, Stream);
  size_t (*row_sums_bytes)(int64_t width);  // of the partials above; of rope_backward: width 2 * head_dim
  int (*head_scores)(const HeadScoresArgs*, Stream);
  int (*head_gradient)(const HeadGradientArgs*, Stream);
  // partials: [kAdamwPartials], zeros where no block writes; count: a multiple of 8.
  int (*adamw_squares)(float* partials, const void* gradients, int64_t count, int fp32, Stream);
  int (*adamw_total)(float* total, const float* partials, int64_t count, Stream);
  int (*adamw_decide)(const AdamwArgs*, Stream);  // reads no part
  int (*adamw)(const AdamwArgs*, Stream);

  // Collectives of several GPUs, in place. Opening waits for all ranks.
  int (*nccl_id)(NcclId* out);
  int (*nccl_open)(NcclComm** out, const NcclId*, int rank, int ranks);  // on the current device
  int (*nccl_close)(NcclComm*);
  int (*nccl_all_reduce)(NcclComm*, void* x, int64_t count, int fp32, Stream);
  int (*nccl_broadcast)(NcclComm*, void* x, int64_t count, int fp32, int root, Stream);
  int (*nccl_reduce_scatter)(NcclComm*, const NcclShares*, Stream);  // sums; others' shares are left without meaning
  int (*nccl_all_gather)(NcclComm*, const NcclShares*, Stream);
  // part: elements that each rank sends to each, itself included.
  int (*nccl_all_to_all)(NcclComm*, void* to, const void* from, int64_t part, int ranks, int fp32, Stream);
  // The first of them between two ranks waits for the other one.
  // `from` to rank `next`, what rank `previous` sends to `to`, both at once.
  int (*nccl_exchange)(NcclComm*, void* to, const void* from, int64_t count, int fp32, int next, int previous, Stream);
  int (*nccl_send)(NcclComm*, const void* x, int64_t count, int fp32, int to, Stream);
  int (*nccl_receive)(NcclComm*, void* x, int64_t count, int fp32, int from, Stream);
  // Of ranks any of which may go at any time: opening and queueing wait for so many seconds at most, what a rank that
  // is gone or stands still keeps from its end is ended by nccl_abort, which closes, too.
  int (*nccl_open_within)(NcclComm** out, const NcclId*, int rank, int ranks, double seconds);
  int (*nccl_broadcast_within)(NcclComm*, void* x, int64_t bytes, int root, double seconds, Stream);
  int (*nccl_look)(NcclComm*);  // what it has met since
  int (*nccl_abort)(NcclComm*);

  // Sampling.
  size_t (*sample_workspace)(int64_t max_rows);
  int (*sample)(const SampleArgs*, Stream);

  // 64-bit checksum of bytes: the sum over all 8-byte little-endian words (the last padded with zeros) of
  // mix(word + (index + 1) * 0x9E3779B97F4A7C15), mix = SplitMix64's finaliser, modulo 2^64; *out is overwritten.
  // checksum_bytes() of kernels/checksum.h is the same on the host.
  int (*checksum)(uint64_t* out, const void* bytes, size_t count, Stream);

  // Programmatic dependent launch (Hopper and later), off at the start: a kernel of this table comes onto the device
  // while the kernel before it in the stream still runs, loads what no kernel writes (weights, the RoPE table) and
  // waits there. Results are the same either way. For the launches of this thread from now on. A whole decode step
  // gains up to 3 % at 1 to 8 rows and nothing at 64 and more (kernels/kernels.h), a prompt of 1,024 about 1 %.
  int (*set_overlap)(int on);
};

}  // namespace tritonforge::gpu

extern "C" const tritonforge::gpu::CudaApi* tritonforge_cuda_api();
