#include "train/other_ranks.h"

#include <exception>

#include "base/log.h"
#include "train/rank_replies.h"

namespace tritonforge::train {
namespace {

constexpr double kLongestWrite = 3600;  // of a rank's part; one that is gone is noticed long before

std::string name_of(int64_t number) { return fmt::format("folder-{}", number); }

}  // namespace

OtherRanks::~OtherRanks() {
  if (told_) return;
  try {
    world_.meeting().put(name_of(number_), "");
  } catch (const std::exception& error) {
    log::warn("{}: the other ranks do not hear that there is none: {}", name_of(number_), error.what());
  }
}

Json OtherRanks::write(const fs::path& folder, const std::function<Json()>& own) {
  told_ = true;
  world_.meeting().put(name_of(number_), folder.string());
  Json sums;
  std::exception_ptr failed;
  try {
    sums = own();
  } catch (...) {
    failed = std::current_exception();  // the folder is theirs, too, until they are done
  }
  try {
    take_replies(world_, name_of(number_), kLongestWrite, [&](const Json& done) { sums.update(done); });
  } catch (...) {
    if (!failed) failed = std::current_exception();
  }
  world_.meeting().remove(name_of(number_));
  if (failed) std::rethrow_exception(failed);
  return sums;
}

void write_for_rank_0(parallel::World& world, int64_t number, const RankPart& part) {
  const fs::path folder = world.meeting().get(name_of(number), Deadline::after(kLongestWrite));
  if (folder.empty()) return;  // rank 0 could not make one
  put_reply(world, name_of(number), [&] { return write_part(part, folder); });
}

}  // namespace tritonforge::train
