#pragma once
// What `tritonforge doctor` concludes from what it saw.
#include <string>
#include <vector>

#include "base/json.h"

namespace tritonforge::cli {

struct Finding {
  bool bad;          // nothing runs with it; the others cost speed, safety or a part
  std::string text;  // one line
  std::string mend;  // the one command that mends it; "" for what a command cannot (no GPU)
};
// `report`: the object that doctor --json prints, without the findings.
std::vector<Finding> findings(const Json& report);

}  // namespace tritonforge::cli
