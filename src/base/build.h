#pragma once
// Which program this is: for --version, and for what says how a run was made. Defined by what cmake/Version.cmake
// writes at every build (the library `version`).
#include <string>

namespace tritonforge {

struct BuildInfo {
  std::string version;  // "0.1.0", of CMakeLists.txt
  std::string commit;   // "21f024e0d1f2", "...-dirty" with changes beside it, "unknown" outside of git
  std::string type;     // Release, RelWithDebInfo, ...
};
const BuildInfo& build_info();

}  // namespace tritonforge
