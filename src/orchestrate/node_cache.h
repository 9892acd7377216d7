#pragma once
// The programs that launchers have brought to this host (~/.cache/tritonforge/nodes/KEY, one a build): which of them
// stay. One that a process runs from does, whatever its age; another goes a week after a launcher last named it.
#include "base/descriptor.h"
#include "base/filesystem.h"

namespace tritonforge::orchestrate {

// Where this program is one of them: its folder. Empty: it was not brought here.
fs::path own_bundle();
// Keeps `bundle` for as long as this process or one that it starts lives. Of nothing where `bundle` is empty.
Descriptor hold_bundle(const fs::path& bundle);
// Says that a launcher named `bundle`, and removes those beside it that have had their time. What could not be removed
// is warned of: a run goes on without that.
void sweep_bundles(const fs::path& bundle);

}  // namespace tritonforge::orchestrate
