#pragma once
// Sandboxed children of the warm Python parent: what each may do, and what its end looks like from outside.
#include <memory>
#include <optional>
#include <string>

#include "base/filesystem.h"
#include "evaluate/channel.h"
#include "evaluate/control_group.h"

namespace tritonforge::evaluate {

// What a child is allowed; the sandbox's options follow from it.
struct ChildLimits {
  double cpu_s = 120;
  uint64_t file_bytes = uint64_t{256} << 20;
  uint64_t memory_bytes = uint64_t{4} << 30;
  bool address_space = true;  // RLIMIT_AS: not with CUDA, which reserves far more than it uses
  bool native = false;        // may map machine code from its own folder
  bool processes = false;     // may fork and exec (compiler child; live mode until the run phase)
  int64_t program_limit = 1 << 20;
  double device_memory = 0;  // part of the GPU's memory that PyTorch may take; 0: all of it
  bool gpu = false;          // its device nodes are there; no other child's
  std::string gpu_uuid;      // which one; empty: whichever the evaluator's own environment shows

  // The same with a GPU: its memory is mapped, a context's mappings count as resident, and Triton runs a compiler.
  ChildLimits with_gpu(const std::string& uuid = "") const {
    ChildLimits wider = *this;
    wider.gpu = true;
    wider.gpu_uuid = uuid;
    wider.cpu_s = 600;
    wider.file_bytes = uint64_t{2} << 30;
    wider.memory_bytes = uint64_t{64} << 30;
    wider.address_space = false;
    wider.processes = true;
    return wider;
  }
};

// One sandboxed child. Killed with everything below it when this object goes.
class Child {
 public:
  // Speaks through `socket`, which it owns, and has no process: a conversation that was written down.
  explicit Child(int socket);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Channel& channel() { return *channel_; }
  const Json& layers() const { return layers_; }  // what the sandbox reported
  const fs::path& folder() const { return folder_->path(); }
  void kill();
  bool alive() const;
  pid_t outer_pid() const { return pid_in_zygote_; }  // as other processes of the machine would name it
  pid_t zygote_pid() const;                           // of the Python parent that made it; -1: it has none
  // "was killed by signal 11 (Segmentation fault)", "ended itself with exit status 0": after kClosed.
  std::string ending(Deadline deadline);
  // Its Python parent died, and took it along: not the child's own fault.
  bool orphaned() const;
  // It was ended for the memory that it took, by the kernel.
  bool ran_out_of_memory() const { return group_ && group_->ran_out_of_memory(); }

 private:
  friend class Zygote;
  Child() = default;
  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<ControlGroup> group_;  // where there are such
  std::unique_ptr<Channel> channel_;
  std::shared_ptr<struct ZygoteState> state_;
  Json layers_;
  int pidfd_ = -1;
  pid_t pid_in_zygote_ = -1;
  int generation_ = 0;
};

class Children {
 public:
  virtual ~Children() = default;
  // role: candidate | reference | record | replay | lower | probe | capture. Throws kUnavailable where no child could
  // be made in time, or where a GPU is asked for and there is none to grant.
  virtual std::unique_ptr<Child> spawn(const std::string& role, const ChildLimits& limits, Deadline deadline) = 0;
};

}  // namespace tritonforge::evaluate
