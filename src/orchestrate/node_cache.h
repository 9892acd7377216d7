#pragma once
// What launchers have brought to this host, and what of it stays: programs (~/.cache/tritonforge/nodes/KEY, one a
// build) and Python environments (each under its own path; a file in it says that it was brought). One that a process
// runs from stays, whatever its age; another goes a week after a launcher last named it.
#include "base/descriptor.h"
#include "base/filesystem.h"

namespace tritonforge::orchestrate {

// In an environment that was brought. One that is the host's own has none, and is nobody's to remove.
inline constexpr const char* kBrought = ".brought";

// Where this program is one of them: its folder. Empty: it was not brought here.
fs::path own_bundle();
// The folder of the environment that this program's Python is of. Empty: of none.
fs::path own_environment();
// Keeps it for as long as this process or one that it starts lives. Of nothing where the path is empty, and where an
// environment was not brought.
Descriptor hold_bundle(const fs::path& bundle);
Descriptor hold_environment(const fs::path& environment);
// Says that a launcher named it, and removes those beside it that have had their time. What could not be removed is
// warned of: a run goes on without that.
void sweep_bundles(const fs::path& bundle);
void sweep_environments(const fs::path& environment);

}  // namespace tritonforge::orchestrate
