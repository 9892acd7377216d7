#pragma once
// A trainer as those see it who want its weights, in the test's process.
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "model/weights.h"
#include "unit/engine/tiny_model.h"
#include "weights/receive.h"

namespace tritonforge::weights {

constexpr double kStall = 2;

// The ranks of a trainer of `layout` that publishes, their desk, and what its weights are.
class Publication {
 public:
  explicit Publication(const SourceLayout& layout = {}, model::ModelConfig config = engine::tiny_config(),
                       at::Device device = at::kCPU, at::ScalarType dtype = at::kFloat)
      : config_(std::move(config)),
        layout_(layout),
        device_(device),
        dtype_(dtype),
        desk_(std::make_unique<Desk>(DeskOptions{.key = "run", .sources = layout.sources(), .gather_s = 0.3})) {
    // torch's record of collectives is one of the process (unit/parallel/run_ranks.h).
    [[maybe_unused]] static const int unrecorded = ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
    for (int64_t source = 0; source < layout.sources(); ++source) {
      sources_.push_back(std::make_unique<Source>(
          SourceOptions{.desk = place(), .layout = layout, .source = source, .stall_s = kStall}, config_));
    }
  }
  DeskPlace place() const { return {"127.0.0.1", desk_->port(), "run"}; }
  PublishedWeights publish(int64_t version, uint64_t seed) {
    ChecksumShares sums;
    for (int64_t source = 0; source < layout_.sources(); ++source) {
      const auto at = layout_.tensor_parallel(source);
      model::Model part(model::stage_of(model::part_of(config_, at.size), layout_.stage(source)), dtype_, device_);
      model::init_random_part(part, at, seed);
      for (const auto& [name, sum] : sources_[static_cast<size_t>(source)]->take(part, version)) sums[name] += sum;
    }
    desk_->offer(version);
    PublishedWeights published{.path = {}, .version = version, .checksums = checksums_of(sums), .device = {}};
    published.group = GroupedWeights{.host = "127.0.0.1",
                                     .port = desk_->port(),
                                     .tp = layout_.tp,
                                     .pp = layout_.pp,
                                     .pp_chunks = layout_.pp_chunks,
                                     .dtype = model::dtype_name(dtype_),
                                     .plan = plan_checksum(config_),
                                     .nccl = device_.is_cuda()};
    return published;
  }
  const model::ModelConfig& config() const { return config_; }
  void close() { sources_.clear(); }
  void offer(int64_t version) { desk_->offer(version); }

 private:
  const model::ModelConfig config_;
  const SourceLayout layout_;
  const at::Device device_;
  const at::ScalarType dtype_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::unique_ptr<Desk> desk_;  // ends first
};

}  // namespace tritonforge::weights
