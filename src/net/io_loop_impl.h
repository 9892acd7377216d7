#pragma once
// What is in an IoLoop, for net/*.cpp only.
#include <optional>
#include <thread>
#include <vector>

#include "net/asio.h"
#include "net/io_loop.h"

namespace tritonforge::net {

struct IoLoop::Impl {
  explicit Impl(int count) : count(count), io(count) {}
  const int count;  // of threads
  asio::io_context io;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{io.get_executor()};
  std::vector<std::thread> threads;
};

}  // namespace tritonforge::net
