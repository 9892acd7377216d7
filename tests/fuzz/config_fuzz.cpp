// libs: tf_base
#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/json.h"

using namespace tritonforge;

namespace {
struct Inner {
  double lr = 1e-5;
  std::vector<std::string> names;
  template <typename Visitor>
  void describe(Visitor& v) {
    v("lr", lr, "");
    v("names", names, "");
  }
};
struct Outer {
  int64_t steps = 1;
  bool on = false;
  Inner train;
  template <typename Visitor>
  void describe(Visitor& v) {
    v("steps", steps, "");
    v("on", on, "");
    v("train", train, "");
  }
};
}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Outer config = load_config<Outer>(parse_yaml(text, "x.yaml"), "x.yaml");
    if (dump_config(load_config<Outer>(parse_yaml(dump_config(config), "x.yaml"), "x.yaml")) != dump_config(config))
      return 1;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage || std::string(error.what()).find("x.yaml") == std::string::npos) return 1;
  }
  try {
    YAML::Node root = parse_yaml("train: {lr: 1}", "x.yaml");
    apply_override(root, text);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"steps: 5\non: true\ntrain:\n  lr: 1e-6\n  names: [a, 'b c', \"d\"]\n", "train.lr=1e-6",
          "a: &x [1]\nb: *x\n"};
}
