#pragma once
// The tables of the buffer's file, and how one of an earlier version becomes one of this.
#include "rollout/sqlite.h"

namespace tritonforge::rollout {

// Makes them in an empty file, and moves an older one's rows over; all or nothing. Throws kUnsupported, naming the
// versions, where the file is of a later one or of another program.
void prepare_schema(Database& database);
// For who only reads: throws kUnsupported where the file is not of this version.
void check_schema(Database& database);

}  // namespace tritonforge::rollout
