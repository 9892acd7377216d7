#pragma once
// The actor that starts and watches one process on the node where Ray puts it. C++17, the ABI of ray_cpp's wheel: this
// folder is a program and a library of its own, which share nothing with the rest but the agent's input and output.
#include <msgpack.hpp>
#include <string>

namespace tritonforge::ray_side {

// What a process said, or its end.
struct Said {
  int channel = 0;    // 1: standard output, 2: standard error, 0: it has ended
  std::string bytes;  // of the channel
  int code = 0;       // channel 0: its exit code, or 128 + signal
  MSGPACK_DEFINE(channel, bytes, code);
};

// Start once; then one caller writes and another one reads, at the same time.
class RemoteProcess {
 public:
  static RemoteProcess* Create() { return new RemoteProcess; }
  // `sh -c command`, with the environment of the node less what Ray adds for its own workers. Returns the process id.
  int Start(std::string command);
  int Write(std::string bytes);  // to its standard input; none: that ends. Returns how many it took
  Said Read();                   // waits for something to say

 private:
  int pid_ = -1, input_ = -1, output_ = -1, errors_ = -1;
};

}  // namespace tritonforge::ray_side
