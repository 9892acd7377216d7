#include "train/rank_replies.h"

namespace tritonforge::train {
namespace {

std::string key_of(const std::string& name, int64_t rank) { return fmt::format("{}-rank-{}", name, rank); }

}  // namespace

void put_reply(parallel::World& world, const std::string& name, const std::function<Json()>& work) {
  Json reply;
  try {
    reply["done"] = work();
  } catch (const std::exception& error) {
    reply["error"] = error.what();
  }
  world.meeting().put(key_of(name, world.rank()), reply.dump());
}

void take_replies(parallel::World& world, const std::string& name, double seconds,
                  const std::function<void(const Json& done)>& take) {
  std::string failed;  // the first; the others are at it still
  for (int64_t rank = 1; rank < world.size(); ++rank) {
    const std::string key = key_of(name, rank);
    const Json reply = parse_json(world.meeting().get(key, Deadline::after(seconds)), key);
    world.meeting().remove(key);
    if (!reply.contains("error")) take(require<Json>(reply, "done", key));
    else if (failed.empty()) failed = fmt::format("rank {}: {}", rank, require<std::string>(reply, "error", key));
  }
  if (!failed.empty()) throw Error(ErrorKind::kUnavailable, failed);
}

}  // namespace tritonforge::train
