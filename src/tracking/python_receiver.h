#pragma once
// Weights & Biases and MLflow through their own Python packages, in a child that reads points as JSON lines and answers
// each flush with one line.
#include <string_view>

#include "base/process.h"
#include "tracking/receiver.h"

namespace tritonforge::tracking {

extern const std::string_view python_receiver_py;

class PythonReceiver : public Receiver {
 public:
  PythonReceiver(const Destination& destination, const fs::path& run);
  ~PythonReceiver() override;
  PythonReceiver(const PythonReceiver&) = delete;
  PythonReceiver& operator=(const PythonReceiver&) = delete;
  void put(const Point& point) override;
  bool flush() override;
  void finish() override;

 private:
  void send(const Json& line);
  Json expect_answer();
  std::string name_;
  int to_child_ = -1, from_child_ = -1;
  std::string partial_;
  std::optional<ChildProcess> child_;
};

}  // namespace tritonforge::tracking
