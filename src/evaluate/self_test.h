#pragma once
// Start-up self-test: a probe child really tries to break out of its sandbox.
#include <map>
#include <string>

#include "evaluate/children.h"
#include "evaluate/options.h"

namespace tritonforge::evaluate {

// Whether an attempt met an error of the system ("EPERM"). "succeeded" did not; one that could not be made shows
// nothing.
bool was_refused(std::string_view outcome);

struct SelfTest {
  Json layers = Json::object();                 // what the sandbox reported
  std::map<std::string, std::string> attempts;  // "connect" -> "EPERM" | "succeeded"
  std::vector<std::string> breaches;            // attempts that succeeded
  // Layers that the rule demands and that are not enforced: "landlock: unavailable: why". A control group is demanded
  // by the strict one alone.
  std::vector<std::string> missing(SandboxRule rule = SandboxRule::kAuto) const;
  bool holds() const { return breaches.empty() && missing().empty(); }
};
// Throws kMachine where the rule is strict and the test does not hold; else logs what does not.
void require_strict(SandboxRule rule, const SelfTest& test);
// What became of processes without end in a child that may make some (limits.processes), as was_refused reads it. The
// child does not survive that.
std::string try_fork_bomb(Children& children, const ChildLimits& limits, Deadline deadline);
// Of a child with or without a GPU. Throws kUnavailable where the probe could not be run at all.
SelfTest test_sandbox(Children& children, bool gpu, Deadline deadline);

}  // namespace tritonforge::evaluate
