#include "engine/team_runner.h"

#include "base/error.h"

namespace tritonforge::engine {

TeamRunner::TeamRunner(std::unique_ptr<RankTeam> team, std::unique_ptr<GpuRanks> gpus, const model::Parts& parts,
                       const Make& make)
    : parts_(parts), gpus_(std::move(gpus)), team_(std::move(team)), ranks_(static_cast<size_t>(team_->size())) {
  team_->each([&](int64_t rank) { ranks_[static_cast<size_t>(rank)] = make(rank); });
}

// None frees what another still reads.
TeamRunner::~TeamRunner() {
  each([](Runner& rank) { rank.discard(); });
  team_->each([&](int64_t rank) { ranks_[static_cast<size_t>(rank)].reset(); });
}

void TeamRunner::move_blocks(std::span<const BlockMove> moves) {
  each([&](Runner& rank) { rank.move_blocks(moves); });
}

void TeamRunner::fill(const Plan& plan, std::span<const kernels::SampleRow> rows) {
  each([&](Runner& rank) { rank.fill(plan, rows); });
}

void TeamRunner::ask(const Plan& plan, const LogitWork& work) {
  each([&](Runner& rank) { rank.ask(plan, work); });
}

void TeamRunner::forward() {
  each([](Runner& rank) { rank.forward(); });
}

std::span<const kernels::Sampled> TeamRunner::draw() {
  std::span<const kernels::Sampled> first;
  team_->each([&](int64_t rank) {
    const auto drawn = ranks_[static_cast<size_t>(rank)]->draw();
    if (rank == 0) first = drawn;
  });
  return first;
}

void TeamRunner::discard() {
  each([](Runner& rank) { rank.discard(); });
  if (gpus_) gpus_->wait_again();
}

void TeamRunner::check_device(at::Device) const {
  for (int64_t rank = 0; rank < parts_.size(); ++rank)
    ranks_[static_cast<size_t>(rank)]->check_device(parts_[rank].device());
}

void TeamRunner::take_memory() {
  try {
    each([](Runner& rank) { rank.take_memory(); });
  } catch (...) {
    release_memory();  // of those that found theirs
    throw;
  }
}

void TeamRunner::release_memory() {
  each([](Runner& rank) { rank.release_memory(); });
}

void TeamRunner::weights_move() {
  each([](Runner& rank) { rank.weights_move(); });
}

}  // namespace tritonforge::engine
