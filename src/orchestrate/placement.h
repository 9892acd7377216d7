#pragma once
// What goes where: the `placement:` section of a recipe, and what follows from it for every process of a run.
//
//   placement:
//     hosts: [a, b]                             as ssh or Ray know them; localhost is where `run` is; empty: that alone
//     actor: {gpus: 4, tp: 2, cp: 2}            the trainer: one process a rank
//     rollout: {gpus: 2, engines: 2}            the engines
//     eval: {with: rollout}                     the evaluator, on the same devices as another group
//
// A group's devices are given by count (the first that are left, host after host) or by id (the same ids on each of its
// hosts); a process sees its own and no other. Router, buffer, generators and dashboard stay with the orchestrator.
// Without the section everything is on this machine, as model.device, engine.count, evaluator.device and share_device
// say.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/options.h"
#include "parallel/dims.h"

namespace tritonforge::orchestrate {

inline constexpr const char* kHead = "localhost";  // the machine of the orchestrator, in a list of hosts

// What a GPU is by its data sheet: bytes in all (cudaMemGetInfo), dense bfloat16 operations, bytes of its memory and
// of its links to the other GPUs of its host a second.
struct GpuKind {
  const char* name;
  double memory, flops, bandwidth, link;
};
const std::vector<GpuKind>& gpu_kinds();
std::vector<std::string> gpu_kind_names();
const GpuKind& gpu_kind(const std::string& name);

struct Degrees {
  int64_t tp = 1, cp = 1, pp = 1, pp_chunks = 1, dp = 0, ep = 1;
  parallel::CpForm cp_form = parallel::CpForm::kUlysses;
  template <typename V>
  void describe(V& v) {
    v("tp", tp, at_least(1), "tensor parallel degree");
    v("cp", cp, at_least(1), "context parallel degree");
    v("cp_form", cp_form, parallel::kCpFormText);
    v("pp", pp, at_least(1), "pipeline parallel degree");
    v("pp_chunks", pp_chunks, at_least(1),
      "chunks of layers of a pipeline's rank (virtual stages, interleaved 1F1B); 1 = 1F1B");
    v("dp", dp, at_least(0), "data parallel degree; 0 = what the group's GPUs are enough for, without GPUs 1");
    v("ep", ep, at_least(1), "expert parallel degree; divides dp * cp");
  }
  // dp: known. dims: what is no degree of them stays.
  parallel::ParallelDims dims(parallel::ParallelDims dims = {}) const {
    dims.tp = tp, dims.cp = cp, dims.pp = pp, dims.pp_chunks = pp_chunks, dims.dp = dp, dims.ep = ep;
    dims.cp_form = cp_form;
    return dims;
  }
};

struct Devices {
  int64_t gpus = 0, cores = 0;
  std::vector<int64_t> gpu_ids, core_ids;
  std::vector<std::string> hosts;
  template <typename V>
  void describe(V& v) {
    v("gpus", gpus, at_least(0), "GPUs of the group, by count; 0 = it computes on the CPU");
    v("gpu_ids", gpu_ids, at_least(0), "its GPUs by id instead, on each of its hosts");
    v("cores", cores, at_least(0), "CPU cores of the group, by count, shared out evenly; 0 = not bound");
    v("core_ids", core_ids, at_least(0), "its cores by id instead, on each of its hosts");
    v("hosts", hosts, "its hosts, out of placement.hosts; empty = any of them");
  }
};

struct ActorPlacement {
  Devices devices;
  Degrees degrees;
  template <typename V>
  void describe(V& v) {
    v.part(devices);
    v.part(degrees);
  }
};

struct RolloutPlacement {
  int64_t engines = 0;
  Devices devices;
  Degrees degrees;  // of each engine; dp: always 1, `engines` is what stands for it
  std::string with;
  template <typename V>
  void describe(V& v) {
    v("engines", engines, at_least(0), "engine processes; 0 = what the group's GPUs are enough for, without GPUs 1");
    v("with", with, one_of({"", "actor"}), "shares that group's devices instead of having its own");
    v.part(devices);
    v.part(degrees);
  }
};

struct EvalPlacement {
  Devices devices;
  std::string with;
  template <typename V>
  void describe(V& v) {
    v("with", with, one_of({"", "actor", "rollout"}), "shares that group's devices instead of having its own");
    v.part(devices);
  }
};

struct PlacementSection {
  std::vector<std::string> hosts;
  std::vector<int64_t> gpus, cores;
  std::string gpu = "H100", ssh_config, weights = "folder";
  ActorPlacement actor;
  RolloutPlacement rollout;
  EvalPlacement eval;
  template <typename V>
  void describe(V& v) {
    v("hosts", hosts,
      "machines of the run, as ssh or Ray know them; localhost is where `run` is; empty = that alone, or with "
      "--launcher ray all nodes of the cluster. Those that no group needs stand by for one that dies");
    v("gpus", gpus, at_least(0), "ids of the GPUs of each host that the run may use; empty = 0, 1, ... as asked for");
    v("cores", cores, at_least(0), "the same for CPU cores");
    v("gpu", gpu, one_of(gpu_kind_names()), "what the GPUs are, for `tritonforge plan`");
    v("ssh_config", ssh_config, "file of settings for ssh (-F), for --launcher ssh; empty = the user's own");
    v("weights", weights, one_of({"folder", "group", "tcp"}),
      "how they reach engines on other hosts: through the run's folder, from every rank of the trainer to all engines "
      "at once (NCCL between GPUs, else Gloo), or from the trainer's memory to each in parallel streams; for the last "
      "two the trainer's hosts listen, with a key; group is not encrypted, tcp where it has certificates "
      "(docs/clusters.md)");
    v("actor", actor, "the trainer: a process a rank, tp * cp * pp * dp of them");
    v("rollout", rollout, "the engines");
    v("eval", eval, "the evaluator");
  }
  bool given() const;  // says anything
};

// Where a process is, and all that it may use there.
struct Place {
  std::string host = kHead;
  std::vector<int64_t> gpus, cores;  // without cores: any
  bool operator==(const Place&) const = default;
};
std::string text_of(const Place& place);  // "a: GPU 0, 1"; "localhost: cores 2, 3"

// The GPUs that `place` leaves visible, and the cores that it is bound to, for a process that is started there. shown:
// CUDA_VISIBLE_DEVICES there (null: not set); a place's GPUs are counted among these. Throws as visible_devices().
std::map<std::string, std::string> environment_of(const Place& place, const char* shown = nullptr);
std::vector<std::string> bound_to_cores(const Place& place, std::vector<std::string> argv);  // taskset -c 2,3 ARGV...

// Where everything is. Not `given`: on this machine, each role on the device that the recipe names.
struct Layout {
  bool given = false;
  std::vector<std::string> hosts{kHead};
  Degrees actor_degrees{.dp = 1}, engine_degrees{.dp = 1};
  std::vector<Place> actor{Place()};    // by rank: tp varies fastest, then cp, dp, pp
  std::vector<Place> engines{Place()};  // an engine's GPUs are on one host
  Place eval;
  bool actor_shares = false, rollout_shares = false, eval_shares = false;  // a device with another group
  std::set<int64_t> known_gpus, known_cores;  // of each host that may be used; empty: as many as were asked for
  std::vector<std::string> notes;             // what is allowed and costs time

  // A place like `place` for a process of a run whose hosts in `gone` do not answer: as many devices, none that another
  // place has, on a host of placement.hosts. Without devices: the host with the fewest processes. Throws kUnavailable.
  Place elsewhere(const Place& place, const std::set<std::string>& gone, const std::vector<Place>& taken) const;
};

// A process: where the placement has it, and where it is.
struct Moved {
  Place first, now;
};
// Where the GPUs of a process that was first at `first` are now for those that share them with it, on a host that is
// not gone. Nothing where it shares none, or they are nowhere yet.
std::optional<Place> with_its_sharers(const Place& first, const std::set<std::string>& gone,
                                      const std::vector<Moved>& others);

// Of a section that is given. Throws kUsage: the key, what it wants, and the nearest that fits.
Layout lay_out(const PlacementSection& placement);

}  // namespace tritonforge::orchestrate
