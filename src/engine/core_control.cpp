// What is commanded between two steps: pausing, memory given back and taken again, new weights.
#include <algorithm>

#include "engine/core.h"
#include "model/weights.h"

namespace tritonforge::engine {

void Core::pause(PauseMode mode) {
  settle();
  paused_ = true;
  if (mode == PauseMode::kAbort) abort_all("generation was paused");
  if (mode == PauseMode::kRetract) {
    counters_.preemptions += scheduler_.running();
    scheduler_.preempt_all();
  }
  publish();
}

void Core::resume() {
  paused_ = false;
  publish();
}

void Core::flush_cache() {
  scheduler_.forget_prefixes();
  publish();
}

// Memory that cannot be had is the machine's lack, whoever says so.
void Core::move_memory(const char* what, const std::function<void()>& move) {
  try {
    move();
  } catch (const std::exception& error) {
    publish();
    fail(ErrorKind::kMachine, "{}: {}", what, first_line(error.what()));
  }
}

void Core::release_memory(MemoryParts parts) {
  settle();
  const auto holds = hold_devices();
  if (parts.weights && !offload_.offloaded()) {  // first: it alone may fail
    move_memory("no host memory to keep the weights in", [&] {
      runner_->weights_move();
      offload_.offload();
    });
  }
  if (parts.cache && runner_->has_memory()) {
    scheduler_.preempt_all();
    scheduler_.forget_prefixes();  // no prefix outlives the blocks that hold it
    runner_->release_memory();
  }
  publish();
}

void Core::resume_memory(MemoryParts parts) {
  const auto holds = hold_devices();
  if (parts.weights && offload_.offloaded()) move_memory("the weights' memory is not free", [&] { offload_.reload(); });
  if (parts.cache && !runner_->has_memory())
    move_memory("the KV cache's memory is not free", [&] { runner_->take_memory(); });
  publish();
}

// Of the tensors that the staged ones were copied to.
TensorChecksums Core::checksums_now(const StagedWeights& staged) const {
  if (!staged.part) return model::weight_checksums(parts_);
  std::vector<std::pair<std::string, at::Tensor>> changed;
  for (const model::ShardedTensor& tensor : parts_.tensors()) {
    const void* place = tensor.tensors.front().const_data_ptr();
    const auto is_it = [&](const auto& copy) { return copy.first.const_data_ptr() == place; };
    if (std::ranges::any_of(staged.copies, is_it)) changed.emplace_back(tensor.name, tensor.whole());
  }
  return model::checksums_of(changed);
}

// Some tensors are new, some old: of no version, and no request may be answered from them.
void Core::lose_weights(const std::string& why) {
  weight_version_ = -1;
  abort_all(why);
  publish();
}

InstalledWeights Core::install(const StagedWeights& staged, int64_t version) {
  settle();
  const auto holds = device_.is_cpu() ? DeviceHolds() : hold_devices();
  if (staged.part && weight_version_ < 0)
    fail(ErrorKind::kConflict, "a part of the weights, and the engine has none: send all of them at once");
  const int64_t now = std::max<int64_t>(weight_version_, 0);
  const int64_t next = version >= 0 ? version : staged.part ? now : now + 1;
  if (staged.part && offload_.offloaded())  // the others are needed, too
    move_memory("the weights' memory is not free", [&] { offload_.reload(); });
  if (!staged.unread.empty())
    weights::compare_weights("the trainer's memory", model::checksums_of(staged.unread), staged.expected);
  InstalledWeights installed{.version = next, .checksums = {}};
  const auto copy = [&] {
    installed.checksums = weights::install(staged, model().dtype());
    synchronize();
  };
  try {
    if (offload_.offloaded()) offload_.replace(copy);
    else copy();
    packed_ = false;  // by the next step: parts come one after another
    scheduler_.weights_changed();
    installed.checksums.merge(checksums_now(staged));
    weights::compare_weights("the weights changed while they were copied", installed.checksums, staged.expected);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    const bool old = offload_.offloaded();  // they lie elsewhere, whole
    const std::string why = fmt::format("{}: {}", old ? "the old weights stay" : "no weights until the next update",
                                        first_line(error.what()));
    if (!old) lose_weights(why);
    fail(known != nullptr ? known->kind() : ErrorKind::kMachine, "{}", why);
  }
  weight_version_ = next;
  publish();
  return installed;
}

at::Tensor Core::weight(const std::string& name, int64_t rows) const {
  if (offload_.offloaded())
    fail(ErrorKind::kConflict, "the weights' memory is released: POST /resume_memory_occupation brings them back");
  std::vector<std::string> known;
  for (const model::ShardedTensor& tensor : parts_.tensors()) {
    known.push_back(tensor.name);
    if (tensor.name == name)
      return tensor.whole().slice(0, 0, rows).to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  }
  fail(ErrorKind::kNotFound, "no weight '{}'{}", name, nearest_hint(name, known));
}

}  // namespace tritonforge::engine
