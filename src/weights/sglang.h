#pragma once
// Weights to engines that are SGLang's own servers, or speak as they do: by the endpoints that SGLang documents
// (docs.sglang.ai, "SGLang for RL systems"), as slime and verl use them.
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/model.h"
#include "net/http.h"
#include "weights/group.h"

namespace tritonforge::weights {

struct SglangOptions {
  std::string host = "127.0.0.1";  // of this process, as the engines reach it
  std::string backend = "gloo";    // nccl where engines and model are on GPUs
  // pause_generation's mode: abort, retract or in_place. Cached prefixes of the older weights are forgotten with it:
  // before 0.5.21 SGLang cannot where retracted requests wait, and never where requests are paused in place.
  std::string pause = "abort";
  int64_t bucket_bytes = int64_t{512} << 20;
  std::string api_key;  // the engines'
  bool operator==(const SglangOptions&) const = default;
};

// One set of engines, which are ranks of one group with this process from the first push on.
class SglangEngines {
 public:
  SglangEngines(std::vector<std::string> urls, SglangOptions options);
  ~SglangEngines();  // the engines leave the group, where they answer
  SglangEngines(const SglangEngines&) = delete;
  SglangEngines& operator=(const SglangEngines&) = delete;
  const std::vector<std::string>& urls() const { return urls_; }
  const SglangOptions& options() const { return options_; }

  // Pauses, broadcasts all weights in buckets, and lets go on. Throws naming the engine: what it answered, kUnavailable
  // where it does not; the group is made anew then, by the next push. Engines are let go on in any case.
  void push(const model::Model& model, int64_t version, Deadline deadline);

 private:
  net::HttpClient client(double timeout_s) const;
  void post(const std::string& url, const char* path, const Json& body, double seconds) const;
  int64_t ranks_of(const std::string& url) const;
  void join(at::Device device, Deadline deadline);
  void leave();
  void pause(const std::string& url, Deadline deadline) const;
  void send(const model::Model& model, int64_t version, Deadline deadline);
  std::vector<std::string> let_go_on(double timeout_s) const;  // every engine; what those said that did not
  const std::vector<std::string> urls_;
  const SglangOptions options_;
  std::string group_name_;
  std::unique_ptr<BroadcastGroup> group_;
};

}  // namespace tritonforge::weights
