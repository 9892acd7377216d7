// libs: tf_rollout
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "rollout/expression.h"
#include "rollout/reward.h"

int fuzz_one(const uint8_t* data, size_t size) {
  using namespace tritonforge;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    rollout::Expression(text, {"x", "speedup"}).evaluate({1.5, 0});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return 1;
  }
  try {
    rollout::Reward::named(text);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"0.3*compiled + 0.5*correct + if(timed, 0.2*ln(speedup), 0)", "min(1, max(2, 3, x)) ^ -2 - clip(x, 0, 1e3)",
          "not (x >= 3 and x != 4) or abs(-x) <= .5", "((((((((x))))))))", "seed"};
}
