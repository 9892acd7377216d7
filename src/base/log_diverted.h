#pragma once
// Log lines for a screen of which a part stays in place.
#include <functional>
#include <string>

namespace tritonforge::log {

// While it lives the lines of this process go to `print`, one at a time and without their line ends, instead of to
// stderr. `print` is called from whatever thread logs, and must not log itself.
class Diverted {
 public:
  explicit Diverted(std::function<void(std::string line)> print);
  ~Diverted();
  Diverted(const Diverted&) = delete;
  Diverted& operator=(const Diverted&) = delete;
};

}  // namespace tritonforge::log
