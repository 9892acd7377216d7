#pragma once
// How what goes wrong with a plan's processes is taken.
#include <optional>
#include <string>

#include "evaluate/conversation.h"
#include "evaluate/plan/runner.h"

namespace tritonforge::evaluate {

// A candidate's process that went silent is judged at once: no other mode would judge it otherwise. Whatever else keeps
// `part` from its end is a NotAPlan.
template <typename Part>
void as_plan(std::optional<Ended>& ended, Part part) {
  try {
    part();
  } catch (const Ended& end) {
    if (end.how != Ended::How::kSilent) throw NotAPlan{"its process wrote to the result channel itself: " + end.text};
    ended = end;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported &&
        error.kind() != ErrorKind::kCorrupt)
      throw;
    throw NotAPlan{clipped(error.what(), 300)};
  } catch (const nlohmann::json::exception&) {
    throw NotAPlan{"the plan lacks a field, or one has the wrong type"};
  }
}

// The same of process P, which is ours: what it does not answer is nobody's fault.
template <typename Part>
void as_replay(Part part) {
  std::optional<Ended> ended;
  as_plan(ended, part);
  if (ended) throw NotAPlan{ended->text};
}
// Or the device's.
inline void check_device(const Device& device, const Ended& ended) {
  if (ended.fault == Fault::kCrashed || (ended.fault == Fault::kTimeout && device.may_hang()))
    throw DeviceFault{ended.text, ended.fault};
}
template <typename Part>
void as_replay(const Device& device, Part part) {
  std::optional<Ended> ended;
  as_plan(ended, part);
  if (!ended) return;
  check_device(device, *ended);
  throw NotAPlan{ended->text};
}

// The same of a process P that has the candidate's machine code in it: its silence is the candidate's, and what it says
// is not ours to answer for.
template <typename Part>
void as_native(std::optional<Ended>& ended, Part part) {
  try {
    part();
  } catch (const Ended& end) {
    ended = end;
  } catch (const nlohmann::json::exception&) {
    ended = forged("an answer without the expected fields");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    ended = forged(error.what());
  }
}

// U's answer to a call that it was to record.
inline void check_recorded(const Frame& frame) {
  if (frame.header.contains("not_a_plan") && frame.header["not_a_plan"].is_string()) {
    NotAPlan why{.reason = clipped(frame.header["not_a_plan"].get<std::string>(), 300), .stage = Stage::kImported};
    if (frame.header.contains("failed")) why.ended = failure_of(frame);
    throw why;
  }
  if (!frame.header.contains("plan")) throw NotAPlan{"recording sent no plan"};
}

// P's answer to a plan that it was handed. Throws NotAPlan where it refuses it.
inline void check_taken(const Frame& answer) {
  if (answer.header.contains("failed")) throw NotAPlan{clipped(answer.header["failed"].value("text", ""), 300)};
}

}  // namespace tritonforge::evaluate
