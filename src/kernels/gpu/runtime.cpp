// Devices, memory, streams, events and graphs: the CUDA runtime behind the table's conventions, and the table itself.
#include <cudaTypedefs.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "kernels/gpu/internal.h"

namespace tritonforge::gpu {
namespace {

thread_local char error_text[512];
thread_local bool overlap_wanted = false;

}  // namespace

int set_error(int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  return code;
}
const char* last_error() { return error_text; }

int check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) cudaGetLastError();  // told here: the next launch must not find it again
  return status == cudaSuccess ? 0 : set_error(static_cast<int>(status), "%s: %s", what, cudaGetErrorString(status));
}

int multiprocessors() {
  thread_local int known_device = -1, count = 0;
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess && device != known_device &&
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) == cudaSuccess)
    known_device = device;
  return std::max(count, 1);
}

int compute_major() {
  thread_local int known_device = -1, major = 0;
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess && device != known_device &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess)
    known_device = device;
  return major;
}

bool overlap_allowed() { return overlap_wanted && compute_major() >= 9; }
int set_overlap(int on) {
  overlap_wanted = on != 0;
  return 0;
}

namespace {

int device_count(int* count) { return check(cudaGetDeviceCount(count), "device_count"); }
int set_device(int device) { return check(cudaSetDevice(device), "set_device"); }

int device_properties(int device, DeviceProperties* out) {
  cudaDeviceProp p;
  if (const int error = check(cudaGetDeviceProperties(&p, device), "device_properties")) return error;
  int clock = 0, width = 0;  // kHz, bits; newer drivers may not tell
  if (cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, device) != cudaSuccess) clock = 0;
  if (cudaDeviceGetAttribute(&width, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess) width = 0;
  *out = {};
  std::memcpy(out->name, p.name, sizeof out->name - 1);  // the last byte stays 0
  out->compute_major = p.major;
  out->compute_minor = p.minor;
  out->multiprocessors = p.multiProcessorCount;
  out->l2_bytes = p.l2CacheSize;
  out->memory_bytes = static_cast<int64_t>(p.totalGlobalMem);
  out->shared_bytes_per_multiprocessor = static_cast<int64_t>(p.sharedMemPerMultiprocessor);
  out->memory_bandwidth = 2.0 * clock * 1e3 * width / 8;
  return 0;
}

int memory_info(size_t* free, size_t* total) { return check(cudaMemGetInfo(free, total), "memory_info"); }
int allocate(void** out, size_t bytes) { return check(cudaMalloc(out, bytes), "allocate"); }
int release(void* pointer) { return check(cudaFree(pointer), "release"); }
int allocate_pinned(void** out, size_t bytes) {
  return check(cudaHostAlloc(out, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "allocate_pinned");
}
int release_pinned(void* pointer) { return check(cudaFreeHost(pointer), "release_pinned"); }

int pin(void* host, size_t bytes) {
  return check(cudaHostRegister(host, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable), "pin");
}
int unpin(void* host) { return check(cudaHostUnregister(host), "unpin"); }

// A function that the driver alone has, by its oldest version of these arguments.
template <typename F>
int driver_function(const char* name, F& to) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (const int error = check(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found), name))
    return error;
  TF_REQUIRE(found == cudaDriverEntryPointSuccess, "the driver has no %s", name);
  to = reinterpret_cast<F>(entry);
  return 0;
}

static_assert(sizeof(IpcHandle::bytes) == sizeof(cudaIpcMemHandle_t));
int ipc_get(void* pointer, IpcHandle* out) {
  PFN_cuMemGetAddressRange_v3020 range = nullptr;  // where an allocation begins
  if (const int error = driver_function("cuMemGetAddressRange", range)) return error;
  CUdeviceptr base = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  const CUresult result = range(&base, nullptr, address);
  TF_REQUIRE(result == CUDA_SUCCESS, "ipc_get: the driver's error %d", static_cast<int>(result));
  cudaIpcMemHandle_t handle;
  if (const int error = check(cudaIpcGetMemHandle(&handle, pointer), "ipc_get")) return error;
  std::memcpy(out->bytes, &handle, sizeof handle);
  out->offset = address - base;
  return 0;
}
int ipc_open(const IpcHandle* from, void** out) {
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, from->bytes, sizeof handle);
  return check(cudaIpcOpenMemHandle(out, handle, cudaIpcMemLazyEnablePeerAccess), "ipc_open");
}
int peer_can(int device, int other, int* can) { return check(cudaDeviceCanAccessPeer(can, device, other), "peer_can"); }
int peer_enable(int other) {
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
  return status == cudaErrorPeerAccessAlreadyEnabled ? 0 : check(status, "peer_enable");
}
int ipc_close(void* pointer) { return check(cudaIpcCloseMemHandle(pointer), "ipc_close"); }

int stream_create(Stream* out, int high_priority) {
  int lowest = 0, highest = 0;
  if (const int error = check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "stream_create")) return error;
  return check(cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, high_priority != 0 ? highest : lowest),
               "stream_create");
}
int stream_destroy(Stream stream) { return check(cudaStreamDestroy(stream), "stream_destroy"); }
int stream_synchronize(Stream stream) { return check(cudaStreamSynchronize(stream), "stream_synchronize"); }
int stream_wait(Stream stream, Event event) { return check(cudaStreamWaitEvent(stream, event, 0), "stream_wait"); }
int event_create(Event* out, int timing) {
  return check(cudaEventCreateWithFlags(out, timing != 0 ? cudaEventDefault : cudaEventDisableTiming), "event_create");
}
int event_destroy(Event event) { return check(cudaEventDestroy(event), "event_destroy"); }
int event_record(Event event, Stream stream) { return check(cudaEventRecord(event, stream), "event_record"); }
int event_synchronize(Event event) { return check(cudaEventSynchronize(event), "event_synchronize"); }
int event_done(Event event, int* done) {
  const cudaError_t status = cudaEventQuery(event);
  *done = status == cudaSuccess ? 1 : 0;
  return status == cudaErrorNotReady ? 0 : check(status, "event_done");
}
int event_elapsed(Event begin, Event end, float* milliseconds) {
  return check(cudaEventElapsedTime(milliseconds, begin, end), "event_elapsed");
}
int copy(void* to, const void* from, size_t bytes, Stream stream) {
  return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy");
}
int fill(void* to, int byte, size_t bytes, Stream stream) {
  return check(cudaMemsetAsync(to, byte, bytes, stream), "fill");
}

int copy_beside(void* const* to, const void* const* from, const size_t* bytes, size_t count, Stream stream) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  size_t first = 0;
  return check(cudaMemcpyBatchAsync(to, from, bytes, count, &attributes, &first, 1, stream), "copy_beside");
}

// Queues an operation of the driver's on a flag in pinned memory. On another GPU's memory newer drivers take neither
// (github.com/NVIDIA/nccl/issues/2052); on the host's all do.
using FlagOperation = PFN_cuStreamWriteValue32_v11070;
static_assert(std::is_same_v<FlagOperation, PFN_cuStreamWaitValue32_v11070>);
int queue_on_flag(const char* name, uint32_t* flag, uint32_t value, unsigned how, Stream stream) {
  FlagOperation operation = nullptr;
  if (const int error = driver_function(name, operation)) return error;
  void* on_device = nullptr;
  if (const int error = check(cudaHostGetDevicePointer(&on_device, flag, 0), name)) return error;
  const CUresult result = operation(stream, reinterpret_cast<CUdeviceptr>(on_device), value, how);
  TF_REQUIRE(result == CUDA_SUCCESS, "%s: the driver's error %d", name, static_cast<int>(result));
  return 0;
}
int stream_tell(uint32_t* flag, uint32_t value, Stream stream) {
  return queue_on_flag("cuStreamWriteValue32", flag, value, CU_STREAM_WRITE_VALUE_DEFAULT, stream);
}
int stream_await(uint32_t* flag, uint32_t value, Stream stream) {
  return queue_on_flag("cuStreamWaitValue32", flag, value, CU_STREAM_WAIT_VALUE_GEQ, stream);
}

int range_begin(const char* name) {
  nvtxRangePushA(name);
  return 0;
}
int range_end() {
  nvtxRangePop();
  return 0;
}

int capture_begin(Stream stream) {
  return check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture_begin");
}
int capture_end(Stream stream, Graph* out, int64_t* nodes) {
  cudaGraph_t graph = nullptr;
  if (const int error = check(cudaStreamEndCapture(stream, &graph), "capture_end")) return error;
  int error = check(cudaGraphInstantiate(out, graph, 0), "capture_end: instantiating");
  size_t count = 0;
  if (error == 0 && nodes != nullptr) {
    error = check(cudaGraphGetNodes(graph, nullptr, &count), "capture_end: counting");
    *nodes = static_cast<int64_t>(count);
  }
  cudaGraphDestroy(graph);
  if (error == 0) error = check(cudaGraphUpload(*out, stream), "capture_end: uploading");
  return error;
}
int graph_launch(Graph graph, Stream stream) { return check(cudaGraphLaunch(graph, stream), "graph_launch"); }
int graph_destroy(Graph graph) { return check(cudaGraphExecDestroy(graph), "graph_destroy"); }

const CudaApi table = {
    .abi = kCudaAbi,
    .last_error = last_error,
    .device_count = device_count,
    .set_device = set_device,
    .device_properties = device_properties,
    .memory_info = memory_info,
    .allocate = allocate,
    .release = release,
    .allocate_pinned = allocate_pinned,
    .release_pinned = release_pinned,
    .pin = pin,
    .unpin = unpin,
    .ipc_get = ipc_get,
    .ipc_open = ipc_open,
    .ipc_close = ipc_close,
    .peer_can = peer_can,
    .peer_enable = peer_enable,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_synchronize = event_synchronize,
    .event_done = event_done,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .fill = fill,
    .copy_beside = copy_beside,
    .stream_tell = stream_tell,
    .stream_await = stream_await,
    .range_begin = range_begin,
    .range_end = range_end,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_launch = graph_launch,
    .graph_destroy = graph_destroy,
    .embed = embed,
    .gather_rows = gather_rows,
    .rms_norm = rms_norm,
    .add_rms_norm = add_rms_norm,
    .swiglu = swiglu,
    .advance = advance,
    .pick_ids = pick_ids,
    .embed_ranks = embed_ranks,
    .join_ranks = join_ranks,
    .gather_logits = gather_logits,
    .meet_ranks = meet_ranks,
    .add_parts = add_parts,
    .rope_table = rope_table,
    .rope_cache = rope_cache,
    .decode_attention_workspace = decode_attention_workspace,
    .decode_attention = decode_attention,
    .prefix_attention_pieces = prefix_attention_pieces,
    .prefix_attention = prefix_attention,
    .widen_cache = widen_cache,
    .move_blocks = move_blocks,
    .prefill_attention = prefill_attention,
    .gemm_open = gemm_open,
    .gemm_workspace = gemm_workspace,
    .gemm_close = gemm_close,
    .gemm_tune = gemm_tune,
    .gemm = gemm,
    .gemm_library = gemm_library,
    .gemm_skinny = gemm_skinny,
    .widen_matrix = widen_matrix,
    .gemm_hopper = gemm_hopper_by,
    .gemm_plan = gemm_plan,
    .rms_norm_backward = rms_norm_backward,
    .swiglu_backward = swiglu_backward,
    .rope_backward = rope_backward,
    .embed_backward = embed_backward,
    .scatter_rows = scatter_rows,
    .bias_backward = bias_backward,
    .attention_backward_workspace = attention_backward_workspace,
    .attention_merge = attention_merge,
    .attention_backward = attention_backward,
    .row_sums_bytes = row_sums_bytes,
    .head_scores = head_scores,
    .head_gradient = head_gradient,
    .adamw_squares = adamw_squares,
    .adamw_total = adamw_total,
    .adamw_decide = adamw_decide,
    .adamw = adamw,
    .nccl_id = nccl_id,
    .nccl_open = nccl_open,
    .nccl_close = nccl_close,
    .nccl_all_reduce = nccl_all_reduce,
    .nccl_broadcast = nccl_broadcast,
    .nccl_reduce_scatter = nccl_reduce_scatter,
    .nccl_all_gather = nccl_all_gather,
    .nccl_all_to_all = nccl_all_to_all,
    .nccl_exchange = nccl_exchange,
    .nccl_send = nccl_send,
    .nccl_receive = nccl_receive,
    .nccl_open_within = nccl_open_within,
    .nccl_broadcast_within = nccl_broadcast_within,
    .nccl_look = nccl_look,
    .nccl_abort = nccl_abort,
    .sample_workspace = sample_workspace,
    .sample = sample,
    .checksum = checksum,
    .set_overlap = set_overlap,
};

}  // namespace
}  // namespace tritonforge::gpu

extern "C" [[gnu::visibility("default")]] const tritonforge::gpu::CudaApi* tritonforge_cuda_api() {
  return &tritonforge::gpu::table;
}
