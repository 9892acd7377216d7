#include "train/pipeline.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::train {
namespace {

// Forward passes before the first backward pass, where there are as many: those of all chunks but the last for the
// first micro-batches and, for each stage that follows, the time that a gradient takes to come from there.
int64_t passes_ahead(const model::Stage& at) {
  const int64_t behind = at.count - at.index - 1;
  return at.chunks == 1 ? behind : 2 * behind + (at.chunks - 1) * at.count;
}

}  // namespace

model::Stage stage_at(const parallel::ParallelDims& dims, const parallel::Coordinates& at) {
  return {at.pp, dims.pp, dims.pp_chunks};
}

std::vector<PassStep> one_forward_one_backward(const model::Stage& at, int64_t batches) {
  const int64_t groups = (batches + at.count - 1) / at.count, passes = groups * at.count * at.chunks,
                ahead = std::min(passes_ahead(at), passes);
  std::vector<PassStep> steps;
  const auto add = [&](bool forward, int64_t pass) {
    const int64_t chunk = pass / at.count % at.chunks,
                  batch = pass / (at.count * at.chunks) * at.count + pass % at.count;
    if (batch < batches) steps.push_back({forward, forward ? chunk : at.chunks - 1 - chunk, batch});
  };
  for (int64_t pass = 0; pass < ahead; ++pass) add(true, pass);
  for (int64_t pass = 0; pass < passes; ++pass) {
    if (pass + ahead < passes) add(true, pass + ahead);
    add(false, pass);
  }
  return steps;
}

int64_t most_waiting(const model::Stage& at) { return passes_ahead(at) + 1; }

Flights::Flights(const model::Stage& at) : slots_(most_waiting(at)), waiting_(static_cast<size_t>(at.chunks)) {
  for (int64_t slot = 0; slot < slots_; ++slot) free_.push_back(slot);
}

int64_t Flights::begin(const MicroBatch& batch, int64_t chunk, bool train) {
  if (slots_ == 1 && free_.empty()) end(0);
  TF_CHECK(!free_.empty(), "a forward pass while {} wait for their backward pass", slots_);
  const int64_t slot = free_.front();
  free_.pop_front();
  if (train) waiting_[static_cast<size_t>(chunk)].push_back({&batch, slot});
  else free_.push_back(slot);
  return slot;
}

Flights::Flight Flights::end(int64_t chunk) {
  auto& waiting = waiting_[static_cast<size_t>(chunk)];
  TF_CHECK(!waiting.empty(), "a backward pass without its forward pass");
  const Flight flight = waiting.front();
  waiting.pop_front();
  free_.push_back(flight.slot);
  return flight;
}

StageLink::StageLink(const parallel::Groups& groups, int64_t chunks)
    : onward_(groups.onward),
      back_(groups.back),
      stage_(onward_ == nullptr ? model::Stage{} : model::Stage{onward_->rank(), onward_->size(), chunks}),
      outputs_(static_cast<size_t>(most_waiting(stage_))) {}

void StageLink::begin_forward(int64_t slot) {
  if (parallel::PendingPtr& sent = outputs_[static_cast<size_t>(slot)]) {
    sent->wait();
    sent.reset();
  }
}

void StageLink::receive_input(const at::Tensor& x) const {
  onward_->receive(x.view({-1}), previous(), "activations")->wait();
}

void StageLink::receive_gradient(const at::Tensor& x) const {
  back_->receive(x.view({-1}), next(), "gradients of activations")->wait();
}

void StageLink::send_output(const at::Tensor& x, int64_t slot) {
  outputs_[static_cast<size_t>(slot)] = onward_->send(x.view({-1}), next(), "activations");
}

void StageLink::send_gradient(const at::Tensor& x) {
  while (gradients_.size() >= outputs_.size()) {
    gradients_.front()->wait();
    gradients_.pop_front();
  }
  gradients_.push_back(back_->send(x.view({-1}), previous(), "gradients of activations"));
}

void StageLink::settle() {
  for (int64_t slot = 0; slot < std::ssize(outputs_); ++slot) begin_forward(slot);
  for (const parallel::PendingPtr& pending : gradients_) pending->wait();
  gradients_.clear();
}

}  // namespace tritonforge::train
