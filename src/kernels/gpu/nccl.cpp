// NCCL behind the table: opened when a job has several GPUs, so that one without it needs none of it.
#include <dlfcn.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/gpu/internal.h"

namespace tritonforge::gpu {
namespace {

struct Nccl {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) comm_init_rank;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
};

template <typename F>
bool find(void* library, const char* name, F& to) {
  to = reinterpret_cast<F>(dlsym(library, name));
  return to != nullptr;
}

const Nccl* load() {
  static Nccl n;
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  const bool whole = library != nullptr && find(library, "ncclGetUniqueId", n.get_unique_id) &&
                     find(library, "ncclCommInitRank", n.comm_init_rank) &&
                     find(library, "ncclCommInitRankConfig", n.comm_init_rank_config) &&
                     find(library, "ncclCommGetAsyncError", n.comm_get_async_error) &&
                     find(library, "ncclCommDestroy", n.comm_destroy) && find(library, "ncclCommAbort", n.comm_abort) &&
                     find(library, "ncclGetErrorString", n.get_error_string) &&
                     find(library, "ncclAllReduce", n.all_reduce) &&
                     find(library, "ncclReduceScatter", n.reduce_scatter) &&
                     find(library, "ncclAllGather", n.all_gather) && find(library, "ncclReduce", n.reduce) &&
                     find(library, "ncclBroadcast", n.broadcast) && find(library, "ncclSend", n.send) &&
                     find(library, "ncclRecv", n.recv) && find(library, "ncclGroupStart", n.group_start) &&
                     find(library, "ncclGroupEnd", n.group_end);
  return whole ? &n : nullptr;
}
const Nccl* nccl() {
  static const Nccl* const loaded = load();
  return loaded;
}

static_assert(kRankGone == 1000 + ncclRemoteError);
int check_nccl(ncclResult_t result, const char* what) {
  return result == ncclSuccess ? 0 : set_error(1000 + result, "%s: %s", what, nccl()->get_error_string(result));
}
#define TF_NCCL() TF_REQUIRE(nccl() != nullptr, "libnccl.so.2 cannot be opened: it comes with torch's CUDA wheel")

ncclComm_t comm(NcclComm* c) { return reinterpret_cast<ncclComm_t>(c); }
ncclDataType_t type(bool fp32) { return fp32 ? ncclFloat32 : ncclBfloat16; }
char* at(void* x, int64_t element, bool fp32) { return static_cast<char*>(x) + element * (fp32 ? 4 : 2); }

// Equal shares through `together`, and what is left of them with the last rank through `rest`.
template <typename Together, typename Rest>
int in_shares(const NcclShares& s, const char* what, const Together& together, const Rest& rest) {
  TF_NCCL();
  if (const int error = check_nccl(nccl()->group_start(), what)) return error;
  const int64_t left = s.count - s.ranks * s.share;
  int error = s.share == 0 ? 0 : check_nccl(together(), what);
  if (error == 0 && left > 0) error = check_nccl(rest(at(s.x, s.ranks * s.share, s.fp32), left), what);
  const int ended = check_nccl(nccl()->group_end(), what);
  return error != 0 ? error : ended;
}

// Of a communicator that does not block: until what was asked of it is under way, or for so many seconds.
int settle(ncclComm_t c, ncclResult_t result, double seconds, const char* what) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (result == ncclInProgress) {
    if (std::chrono::steady_clock::now() > until)
      return set_error(1000 + ncclInProgress, "%s: the other ranks did not come within %.0f s", what, seconds);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (const ncclResult_t asked = nccl()->comm_get_async_error(c, &result); asked != ncclSuccess) result = asked;
  }
  return check_nccl(result, what);
}

}  // namespace

int nccl_id(NcclId* out) {
  TF_NCCL();
  static_assert(sizeof(ncclUniqueId) == sizeof out->bytes);
  ncclUniqueId id;
  if (const int error = check_nccl(nccl()->get_unique_id(&id), "nccl_id")) return error;
  std::memcpy(out->bytes, &id, sizeof id);
  return 0;
}
int nccl_open(NcclComm** out, const NcclId* id, int rank, int ranks) {
  TF_NCCL();
  ncclUniqueId unique;
  std::memcpy(&unique, id->bytes, sizeof unique);
  ncclComm_t opened = nullptr;
  if (const int error = check_nccl(nccl()->comm_init_rank(&opened, ranks, unique, rank), "nccl_open")) return error;
  *out = reinterpret_cast<NcclComm*>(opened);
  return 0;
}
int nccl_close(NcclComm* c) { return check_nccl(nccl()->comm_destroy(comm(c)), "nccl_close"); }
int nccl_all_reduce(NcclComm* c, void* x, int64_t count, int fp32, Stream stream) {
  TF_NCCL();
  return check_nccl(nccl()->all_reduce(x, x, static_cast<size_t>(count), type(fp32 != 0), ncclSum, comm(c), stream),
                    "nccl_all_reduce");
}
int nccl_broadcast(NcclComm* c, void* x, int64_t count, int fp32, int root, Stream stream) {
  TF_NCCL();
  return check_nccl(nccl()->broadcast(x, x, static_cast<size_t>(count), type(fp32 != 0), root, comm(c), stream),
                    "nccl_broadcast");
}
int nccl_reduce_scatter(NcclComm* c, const NcclShares* s, Stream stream) {
  return in_shares(
      *s, "nccl_reduce_scatter",
      [&] {
        return nccl()->reduce_scatter(s->x, at(s->x, s->rank * s->share, s->fp32), static_cast<size_t>(s->share),
                                      type(s->fp32), ncclSum, comm(c), stream);
      },
      [&](void* x, int64_t left) {
        return nccl()->reduce(x, x, static_cast<size_t>(left), type(s->fp32), ncclSum, s->ranks - 1, comm(c), stream);
      });
}
int nccl_all_gather(NcclComm* c, const NcclShares* s, Stream stream) {
  return in_shares(
      *s, "nccl_all_gather",
      [&] {
        return nccl()->all_gather(at(s->x, s->rank * s->share, s->fp32), s->x, static_cast<size_t>(s->share),
                                  type(s->fp32), comm(c), stream);
      },
      [&](void* x, int64_t left) {
        return nccl()->broadcast(x, x, static_cast<size_t>(left), type(s->fp32), s->ranks - 1, comm(c), stream);
      });
}

int nccl_all_to_all(NcclComm* c, void* to, const void* from, int64_t part, int ranks, int fp32, Stream stream) {
  TF_NCCL();
  const char* what = "nccl_all_to_all";
  const bool wide = fp32 != 0;
  const auto count = static_cast<size_t>(part);
  if (const int error = check_nccl(nccl()->group_start(), what)) return error;
  int error = 0;
  for (int r = 0; r < ranks && error == 0; ++r) {
    const void* sent = at(const_cast<void*>(from), r * part, wide);
    error = check_nccl(nccl()->send(sent, count, type(wide), r, comm(c), stream), what);
    if (error == 0)
      error = check_nccl(nccl()->recv(at(to, r * part, wide), count, type(wide), r, comm(c), stream), what);
  }
  const int ended = check_nccl(nccl()->group_end(), what);
  return error != 0 ? error : ended;
}

int nccl_exchange(NcclComm* c, void* to, const void* from, int64_t count, int fp32, int next, int previous,
                  Stream stream) {
  TF_NCCL();
  const char* what = "nccl_exchange";
  const auto elements = static_cast<size_t>(count);
  if (const int error = check_nccl(nccl()->group_start(), what)) return error;
  int error = check_nccl(nccl()->send(from, elements, type(fp32 != 0), next, comm(c), stream), what);
  if (error == 0) error = check_nccl(nccl()->recv(to, elements, type(fp32 != 0), previous, comm(c), stream), what);
  const int ended = check_nccl(nccl()->group_end(), what);
  return error != 0 ? error : ended;
}

int nccl_send(NcclComm* c, const void* x, int64_t count, int fp32, int to, Stream stream) {
  TF_NCCL();
  return check_nccl(nccl()->send(x, static_cast<size_t>(count), type(fp32 != 0), to, comm(c), stream), "nccl_send");
}
int nccl_receive(NcclComm* c, void* x, int64_t count, int fp32, int from, Stream stream) {
  TF_NCCL();
  return check_nccl(nccl()->recv(x, static_cast<size_t>(count), type(fp32 != 0), from, comm(c), stream),
                    "nccl_receive");
}

int nccl_open_within(NcclComm** out, const NcclId* id, int rank, int ranks, double seconds) {
  TF_NCCL();
  ncclUniqueId unique;
  std::memcpy(&unique, id->bytes, sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t opened = nullptr;
  const ncclResult_t begun = nccl()->comm_init_rank_config(&opened, ranks, unique, rank, &config);
  if (const int error = settle(opened, begun, seconds, "nccl_open_within")) {
    if (opened != nullptr) nccl()->comm_abort(opened);
    return error;
  }
  *out = reinterpret_cast<NcclComm*>(opened);
  return 0;
}
int nccl_broadcast_within(NcclComm* c, void* x, int64_t bytes, int root, double seconds, Stream stream) {
  TF_NCCL();
  const ncclResult_t begun = nccl()->broadcast(x, x, static_cast<size_t>(bytes), ncclUint8, root, comm(c), stream);
  return settle(comm(c), begun, seconds, "nccl_broadcast_within");
}
int nccl_look(NcclComm* c) {
  TF_NCCL();
  ncclResult_t met = ncclSuccess;
  if (const int error = check_nccl(nccl()->comm_get_async_error(comm(c), &met), "nccl_look")) return error;
  return met == ncclInProgress ? 0 : check_nccl(met, "nccl_look");
}
int nccl_abort(NcclComm* c) { return check_nccl(nccl()->comm_abort(comm(c)), "nccl_abort"); }

}  // namespace tritonforge::gpu
