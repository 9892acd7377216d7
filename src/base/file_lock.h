#pragma once
// flock(): a lock on an open file that goes with its last descriptor, so that a killed holder frees it.
#include <sys/file.h>

#include "base/filesystem.h"

namespace tritonforge {

// `how`: LOCK_SH or LOCK_EX, which wait, or either with LOCK_NB: false where another process holds it. Throws kMachine,
// naming `path`, where its file system has no such locks: without them two processes would take one folder for theirs.
bool lock_file(int fd, int how, const fs::path& path);

}  // namespace tritonforge
