#pragma once
// Where commands write.
#include <string>

#include "base/filesystem.h"

namespace tritonforge::cli {

void make_folder(const fs::path& folder);  // and those above it; throws kUnavailable
// Makes the folder of a file that is about to be written. Throws kUsage where `file` is a folder itself.
void make_room_for(const fs::path& file);

// The last line of a command that a signal ends: what is kept, and how to go on.
void tell_stopped(int signal, const std::string& what);

}  // namespace tritonforge::cli
