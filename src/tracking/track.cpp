#include <thread>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/file_lock.h"
#include "base/folder_watch.h"
#include "base/line_tail.h"
#include "base/named_enum.h"
#include "base/nearest.h"
#include "tracking/receiver.h"

namespace tritonforge::tracking {
namespace {

// How far a receiver has what the run wrote.
struct Position {
  uint64_t steps = 0;  // bytes of steps.jsonl
  int64_t rows = 0;    // of state.json
};

Position read_position(const fs::path& file) {
  if (!fs::exists(file)) return {};
  const Json json = parse_json(read_file(file), file.string());
  return {require<uint64_t>(json, "steps", file.string()), require<int64_t>(json, "rows", file.string())};
}

// One at a time: two would hand over every point twice. That of a run that was killed is gone in a moment.
Descriptor lock_of(const fs::path& position, const fs::path& run) {
  constexpr double kPatience = 5;
  const fs::path path = position.string() + ".lock";
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.get() < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", path.string(), std::strerror(errno));
  const Deadline deadline = Deadline::after(kPatience);
  while (!lock_file(lock.get(), LOCK_EX | LOCK_NB, path)) {
    if (deadline.expired())
      fail(ErrorKind::kUnavailable, "{}: another process hands this run's figures to {} ({} is locked)", run.string(),
           position.stem().string(), path.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // flock() has no form with a deadline
  }
  return lock;
}

Json rows_of(const fs::path& run) {
  const fs::path state = run / "state.json";
  if (!fs::exists(state)) return Json::array();
  return optional_field<Json>(parse_json(read_file(state), state.string()), "rows", Json::array(), state.string());
}

}  // namespace

int64_t track(const Destination& destination, const fs::path& run, bool follow, const std::stop_token& stop) {
  if (!fs::exists(run / "state.json"))
    fail(ErrorKind::kNotFound, "no run in {}: it has no state.json{}", run.string(), nearest_path_hint(run));
  const fs::path file = run / "tracking" / fmt::format("{}.json", name_of(destination.target));
  fs::create_directories(file.parent_path());
  const Descriptor lock = lock_of(file, run);
  Position position = read_position(file);
  const auto receiver = make_receiver(destination, run);
  FolderWatch watch;
  watch.add(run);
  const std::stop_callback on_stop(stop, [&watch] { watch.wake(); });
  LineTail steps(run / "steps.jsonl", position.steps);
  const auto keep = [&] { write_file_atomic(file, Json{{"steps", steps.offset()}, {"rows", position.rows}}.dump()); };
  int64_t handed_over = 0;
  bool kept = true;
  while (true) {
    const bool last = !follow || stop.stop_requested();  // before the look: what came before the request is seen
    int64_t points = 0;
    for (const std::string& line : steps.poll()) {
      const Json step = parse_json_or_discard(line);
      if (!step.is_object()) continue;  // cut off by a crash; the step is written again
      receiver->put(point_of_step(step));
      ++points;
    }
    const Json rows = rows_of(run);
    const auto there = static_cast<int64_t>(rows.size());
    const bool fewer = there < position.rows;  // a stage goes on with more steps, and is measured anew
    if (fewer) position.rows = there;
    for (; position.rows < there; ++position.rows, ++points)
      receiver->put(point_of_row(rows[static_cast<size_t>(position.rows)], position.rows, unix_seconds()));
    if (points > 0 || fewer) {
      kept = receiver->flush();
      if (kept) keep();
      handed_over += points;
    }
    if (last) break;
    watch.wait();
  }
  receiver->finish();
  if (!kept) keep();
  return handed_over;
}

}  // namespace tritonforge::tracking
