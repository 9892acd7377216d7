#include "train/parts_offer.h"

#include "model/weights.h"
#include "train/rank_replies.h"

namespace tritonforge::train {
namespace {

constexpr const char* kDesk = "weights-desk";  // its port, as a name of the ranks' meeting
constexpr double kTakeSeconds = 600;           // for a copy of a rank's part

std::string shares_name(int64_t version) { return fmt::format("weights-{}", version); }

weights::SourceLayout layout_of(const parallel::ParallelDims& dims) { return {dims.tp, dims.pp, dims.pp_chunks}; }

}  // namespace

weights::ChecksumShares PartsOffer::take(Trainer& trainer, int64_t version) {
  const parallel::Coordinates at = world_ != nullptr ? world_->at() : parallel::Coordinates{};
  if (at.cp != 0 || at.dp != 0) return {};
  if (!source_) {
    weights::SourceOptions options{.desk = {host_, 0, key_}, .layout = layout_of(trainer.config().parallel)};
    options.source = at.pp * options.layout.tp + at.tp;
    if (desk_) {
      options.desk.port = desk_->port();
    } else {
      const std::string desk = world_->meeting().get(kDesk, Deadline::after(kTakeSeconds));
      const size_t colon = desk.rfind(':');
      options.desk = {desk.substr(0, colon), std::stoi(desk.substr(colon + 1)), key_};
    }
    source_ = std::make_unique<weights::Source>(options, trainer.shape());
  }
  return source_->take(trainer.model(), version);
}

PublishedWeights PartsOffer::publish(Trainer& trainer, int64_t version) {
  const parallel::ParallelDims& dims = trainer.config().parallel;
  const weights::SourceLayout layout = layout_of(dims);
  if (!desk_) {
    desk_ = std::make_unique<weights::Desk>(
        weights::DeskOptions{.host = host_, .key = key_, .sources = layout.sources()});
    if (world_ != nullptr) world_->meeting().put(kDesk, fmt::format("{}:{}", host_, desk_->port()));
  }
  weights::ChecksumShares sums = take(trainer, version);
  if (world_ != nullptr) {
    take_replies(*world_, shares_name(version), kTakeSeconds, [&](const Json& done) {
      for (const auto& [name, share] : done.get<weights::ChecksumShares>()) sums[name] += share;
    });
  }
  desk_->offer(version);
  PublishedWeights published{.path = {}, .version = version, .checksums = weights::checksums_of(sums), .device = {}};
  published.group = GroupedWeights{.host = host_,
                                   .port = desk_->port(),
                                   .tp = layout.tp,
                                   .pp = layout.pp,
                                   .pp_chunks = layout.pp_chunks,
                                   .dtype = model::dtype_name(trainer.model().dtype()),
                                   .plan = weights::plan_checksum(trainer.shape()),
                                   .nccl = trainer.model().device().is_cuda()};
  return published;
}

void PartsOffer::give(Trainer& trainer, int64_t version) {
  put_reply(*world_, shares_name(version), [&]() -> Json { return take(trainer, version); });
}

}  // namespace tritonforge::train
