#pragma once
// One candidate against one reference: the conversation with child U, and the verdict that follows from it.
#include <optional>

#include "contract/verdict.h"
#include "evaluate/lowering.h"
#include "evaluate/reference.h"
#include "evaluate/request.h"

namespace tritonforge::evaluate {

struct JudgeContext {
  Zygote& zygote;
  LoweringPool& lowering;
  const EvaluatorOptions& options;
  bool live;
};

class Judge {
 public:
  Judge(JudgeContext context, const EvaluationRequest& request, std::shared_ptr<const ReferenceData> reference,
        uint64_t init_seed, uint64_t nonce_seed, Verdict& verdict, Deadline deadline, Deadline overall);
  // Fills the verdict up to stage correct.
  void run();
  // The candidate's child, for timing; only after a correct verdict in live mode.
  Child& child() { return *child_; }

 private:
  struct Kernel {
    std::string name, target, ir;
    Json options;
    std::string error;
  };
  bool load();
  bool trial(size_t index, bool ghost);
  bool compile();
  // The next frame that is not a kernel, its payload hardly above `payload_bytes`; nullopt: the verdict says why.
  std::optional<Frame> next(const char* doing, size_t payload_bytes = 0);
  bool keep_kernel(const Frame& frame);  // false: too much of them, and the verdict says so
  void silence(Silence silence, const std::string& detail, const char* doing);
  void failed(const Frame& frame);
  void forged(const std::string& what);
  std::string nonce();

  JudgeContext context_;
  const EvaluationRequest& request_;
  std::shared_ptr<const ReferenceData> reference_;
  uint64_t init_seed_, nonce_state_;
  Verdict& verdict_;
  Deadline deadline_;  // of the candidate's own work; compiling is not counted against it
  Deadline overall_;
  double limit_s_;
  std::unique_ptr<Child> child_;
  std::vector<Kernel> kernels_;
  size_t ir_bytes_ = 0;  // of kernels_
  size_t compiled_ = 0;  // kernels_ before this index have been lowered
  std::string nonce_;
  bool trivial_ = true;
};

}  // namespace tritonforge::evaluate
