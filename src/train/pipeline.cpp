#include "train/pipeline.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::train {

std::vector<PassStep> one_forward_one_backward(int64_t batches, int64_t in_flight) {
  std::vector<PassStep> steps;
  const int64_t ahead = std::min(in_flight - 1, batches);
  for (int64_t batch = 0; batch < ahead; ++batch) steps.push_back({true, batch});
  for (int64_t batch = 0; batch < batches; ++batch) {
    if (batch + ahead < batches) steps.push_back({true, batch + ahead});
    steps.push_back({false, batch});
  }
  return steps;
}

int64_t Flights::begin(const MicroBatch& batch, bool train) {
  if (in_flight_ == 1) waiting_.clear();
  TF_CHECK(std::ssize(waiting_) < in_flight_, "a forward pass while {} wait for their backward pass", waiting_.size());
  const int64_t slot = next_++ % in_flight_;
  if (train) waiting_.push_back({&batch, slot});
  return slot;
}

Flights::Flight Flights::end() {
  TF_CHECK(!waiting_.empty(), "a backward pass without its forward pass");
  const Flight flight = waiting_.front();
  waiting_.pop_front();
  return flight;
}

void StageLink::receive_input(const at::Tensor& x) const {
  onward_->receive(x.view({-1}), onward_->rank() - 1, "activations")->wait();
}

void StageLink::receive_gradient(const at::Tensor& x) const {
  back_->receive(x.view({-1}), back_->rank() + 1, "gradients of activations")->wait();
}

void StageLink::make_room(Sends& sends) const {
  while (std::ssize(sends) >= in_flight()) {
    sends.front()->wait();
    sends.pop_front();
  }
}

void StageLink::send_output(const at::Tensor& x) {
  outputs_.push_back(onward_->send(x.view({-1}), onward_->rank() + 1, "activations"));
}

void StageLink::send_gradient(const at::Tensor& x) {
  make_room(gradients_);
  gradients_.push_back(back_->send(x.view({-1}), back_->rank() - 1, "gradients of activations"));
}

void StageLink::settle() {
  for (Sends* sends : {&outputs_, &gradients_}) {
    for (const parallel::PendingPtr& pending : *sends) pending->wait();
    sends->clear();
  }
}

}  // namespace tritonforge::train
