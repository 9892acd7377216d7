#include "train/ranks.h"

#include <ATen/Parallel.h>

#include <future>

#include "base/log.h"
#include "kernels/device.h"
#include "train/checkpoint.h"
#include "train/parts_offer.h"

namespace tritonforge::train {
namespace {

constexpr std::array<std::string_view, 7> kNames{"step",       "published", "give_model", "offer_parts",
                                                 "checkpoint", "export",    "end"};

void train(Trainer& trainer, const RankCommand& command) {
  try {
    trainer.train_step(command.kind, command.batch.sequences,
                       command.has_figures ? std::optional(command.batch.figures) : std::nullopt);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage || trainer.broken()) throw;
    log::warn("step {}: {}", trainer.state().step + 1, error.what());  // rank 0 answers it
  }
}

}  // namespace

std::string to_bytes(const RankCommand& command) {
  const Json head = {{"what", kNames[static_cast<size_t>(command.what)]},
                     {"number", command.number},
                     {"kind", name_of(command.kind)},
                     {"has_figures", command.has_figures},
                     {"copied", command.copied}};
  return head.dump() + "\n" + to_binary(command.batch);
}

RankCommand rank_command(std::string_view bytes) {
  const size_t line = bytes.find('\n');
  const Json head = parse_json(std::string(bytes.substr(0, line)), "rank 0");
  const auto what = require<std::string>(head, "what", "rank 0");
  const auto found = std::ranges::find(kNames, what);
  if (found == kNames.end() || line == std::string_view::npos)
    fail(ErrorKind::kUsage, "rank 0 says '{}', which no rank knows", what);
  return {static_cast<RankCommand::What>(found - kNames.begin()),
          require<int64_t>(head, "number", "rank 0"),
          from_name<StepKind>(require<std::string>(head, "kind", "rank 0"), "kind"),
          batch_from_binary(bytes.substr(line + 1)),
          require<bool>(head, "has_figures", "rank 0"),
          require<bool>(head, "copied", "rank 0")};
}

std::unique_ptr<parallel::World> join_ranks(const TrainConfig& config, const parallel::WorldOptions& options) {
  if (config.parallel.world() == 1) {
    if (options.rank != 0) fail(ErrorKind::kUsage, "rank {} of a job of one process", options.rank);
    return nullptr;
  }
  config.parallel.validate();
  return std::make_unique<parallel::World>(config.parallel, options, kernels::open_device(config.device),
                                           [](const std::string& why) {
                                             log::error("the job ends: {}", why);
                                             std::_Exit(1);  // a collective may never return
                                           });
}

void set_up_thread(const TrainConfig& config, const parallel::World* world) {
  kernels::open_device(config.device);
  if (config.threads > 0) return at::set_num_threads(static_cast<int>(config.threads));
  if (world == nullptr || std::getenv("OMP_NUM_THREADS") != nullptr) return;
  static const int64_t all = at::get_num_threads();  // before a thread takes fewer
  at::set_num_threads(static_cast<int>(std::max<int64_t>(1, all / world->ranks_here())));
}

void follow_rank_0(const TrainConfig& config, const parallel::WorldOptions& options, const std::string& weights_key) {
  config.validate_job();
  const auto world = join_ranks(config, options);
  set_up_thread(config, world.get());
  const fs::path from = world->meeting().get("resume", Deadline::after(config.parallel.timeout_s));
  std::unique_ptr<Trainer> trainer;
  PartsOffer offer(world.get(), options.host, weights_key);
  Snapshot snapshot;
  std::future<void> writing;  // ends before what it reads
  try {
    trainer = from.empty() ? make_trainer(config, {}, world.get()) : resume_trainer(config, from, world.get());
    while (true) {
      const RankCommand command = rank_command(world->told());
      switch (command.what) {
        case RankCommand::What::kStep: train(*trainer, command); break;
        case RankCommand::What::kPublished: trainer->published(command.number); break;
        case RankCommand::What::kGiveModel: trainer->give_model(); break;
        case RankCommand::What::kOfferParts: offer.give(*trainer, command.number); break;
        case RankCommand::What::kCheckpoint:
          if (writing.valid()) writing.get();
          if (!command.copied) {
            write_for_rank_0(*world, command.number, part_of(*trainer, /*with_optimizer=*/true));
            break;
          }
          writing = std::async(std::launch::async, [&world, number = command.number, part = snapshot.take(*trainer)] {
            write_for_rank_0(*world, number, part);
          });
          break;
        case RankCommand::What::kExport:
          write_for_rank_0(*world, command.number, part_of(*trainer, /*with_optimizer=*/false));
          break;
        case RankCommand::What::kEnd:
          if (writing.valid()) writing.get();
          return;
      }
    }
  } catch (const std::exception& error) {
    world->report(error.what(), parallel::is_of_another(error));
    throw;
  }
}

}  // namespace tritonforge::train
