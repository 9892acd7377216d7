// libs: tf_evaluate
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "evaluate/compare.h"
#include "evaluate/server.h"

std::vector<std::string> fuzz_seeds() {
  return {R"([{"dtype":"float32","shape":[2,2],"order":[0,1],"bytes":16},{"dtype":"bfloat16","shape":[3,8],)"
          R"("order":[1,0],"bytes":48}])",
          R"([{"dtype":"int64","shape":[],"order":[],"bytes":8},{"dtype":"bool","shape":[0,5],"order":[0,1],)"
          R"("bytes":0},{"dtype":"float64","shape":[7],"order":[0],"bytes":56}])",
          R"({"problem":{"id":"p","source":"x"},"candidate":"y","mode":null,"seed":42,"num_correct_trials":5,)"
          R"("measure_performance":true,"backend":"triton","timeout_s":120})",
          R"({"original_model_src":"x","custom_model_src":"y","seed_num":42,"num_perf_trials":100,)"
          R"("verbose":false,"backend":"cuda"})"};
}

// What comes from untrusted children (tensor descriptions) and from clients (request bodies): refused or read, never
// more.
int fuzz_one(const uint8_t* data, size_t size) {
  using namespace tritonforge;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return 0;
  const std::vector<std::byte> payload(64);
  try {
    const auto tensors = evaluate::parse_tensors(json, payload);
    for (const auto& tensor : tensors) evaluate::compare(tensor, tensor, {}, "x");
  } catch (const Error&) {}
  for (const bool legacy : {false, true}) {
    try {
      evaluate::evaluation_request_from_json(json, legacy);
    } catch (const Error&) {}
  }
  return 0;
}
