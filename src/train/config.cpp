#include "train/config.h"

#include "base/error.h"

namespace tritonforge::train {

void LossConfig::validate() const {
  if (tis_cap > 0 && ratio_base == RatioBase::kSampler) {
    fail(ErrorKind::kUsage,
         "loss.tis_cap: a ratio over the sampler is corrected already; set ratio_base to trainer or tis_cap to 0");
  }
  if (kl_coef > 0 && kl_type == KlType::kK1 && ratio_base == RatioBase::kSampler) {
    fail(ErrorKind::kUsage, "loss.kl_type k1 is a penalty on the trainer's own log-probs; set ratio_base to trainer");
  }
}

void TrainConfig::validate() const {
  if (parallel.world() > 1 && autograd)
    fail(ErrorKind::kUsage, "parallel degrees above 1 are not autograd's: set autograd to false");
  if (device != "cpu" && device != "cuda" && device.rfind("cuda:", 0) != 0) {
    fail(ErrorKind::kUsage, "device: unknown value '{}'{}", device, nearest_hint(device, {"cpu", "cuda", "cuda:0"}));
  }
  if (schedule == Schedule::kCosine && min_lr > lr) fail(ErrorKind::kUsage, "min_lr {} is above lr {}", min_lr, lr);
  if (run_id.find('/') != std::string::npos) fail(ErrorKind::kUsage, "run_id '{}' must not contain '/'", run_id);
  if (init_random && loss.kl_coef > 0 && reference_model.empty()) {
    fail(ErrorKind::kUsage, "loss.kl_coef with init_random needs a reference_model");
  }
}

std::string TrainConfig::states_refusal(const std::string& on_device, const std::string& of_dtype) const {
  if (optimizer_state == OptimizerState::kFp32) return "";
  const bool on_host = optimizer_state == OptimizerState::kCpu;
  if (on_device == "cpu") return on_host ? "" : "is for GPUs, and the device is cpu";
  if (of_dtype != "bfloat16") return fmt::format("is for models in bfloat16, not {}", of_dtype);
  return autograd ? "is not autograd's: set autograd to false" : "";
}

void TrainConfig::validate_job() const {
  check_options(*this);
  if (const std::string refusal = states_refusal(device, dtype); !refusal.empty())
    fail(ErrorKind::kUsage, "optimizer_state {} {}", name_of(optimizer_state), refusal);
  if (parallel.pp_chunks > 1 && device != "cpu")  // what goes round would wait behind what comes
    fail(ErrorKind::kUnsupported, "parallel.pp_chunks {} on {}: on GPUs a stage is one chunk of layers yet",
         parallel.pp_chunks, device);
  if (parallel.ep > 1)  // the models that are read have none
    fail(ErrorKind::kUnsupported, "parallel.ep {}: a dense model has no experts to share out: ep is 1", parallel.ep);
  if (model.empty()) fail(ErrorKind::kUsage, "model is missing: a Hugging Face folder or a GGUF file");
  if (checkpoint_interval > 0 && checkpoint.empty())
    fail(ErrorKind::kUsage, "checkpoint_interval is set but no checkpoint folder");
  if (checkpoint_interval % stop_interval != 0) {
    fail(ErrorKind::kUsage, "checkpoint_interval {} is no multiple of stop_interval {}: the next one is {}",
         checkpoint_interval, stop_interval, (checkpoint_interval / stop_interval + 1) * stop_interval);
  }
}

}  // namespace tritonforge::train
