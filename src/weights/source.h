#pragma once
// One of the trainer's ranks as who sends its part of the weights, as often as somebody asks for them, while the
// trainer goes on: from a copy.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "weights/desk.h"
#include "weights/reshard.h"

namespace tritonforge::weights {

struct DeskPlace {
  std::string host;
  int port = 0;
  std::string key;
};

struct SourceOptions {
  DeskPlace desk;
  SourceLayout layout;
  int64_t source = 0;  // of the layout's
  double stall_s = 15;
};

// Memory of a stream: on the device where a half of what is free is left there, else on the host.
at::Tensor stream_memory(int64_t bytes, at::Device device);

class Source {
 public:
  Source(SourceOptions options, const model::ModelConfig& whole);
  ~Source();  // ends what it sends
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Copies the part into stream_memory(); the copy before goes once nobody is sent it any more. Returns its shares of
  // the checksums.
  ChecksumShares take(const model::Model& part, int64_t version);

 private:
  struct Copy {
    int64_t version = 0;
    at::ScalarType dtype = at::kFloat;
    at::Tensor stream;             // kByte: what is sent
    at::Device device = at::kCPU;  // of the model
  };
  std::shared_ptr<const Copy> newest();  // waits for one; null at the end
  void run();
  void send(const Copy& copy, const Round& round);

  const SourceOptions options_;
  const std::vector<Piece> pieces_;  // of its part

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  std::shared_ptr<const Copy> copy_;
  std::thread thread_;
};

}  // namespace tritonforge::weights
