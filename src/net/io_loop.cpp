#include "net/io_loop.h"

#include <algorithm>

#include "net/io_loop_impl.h"

namespace tritonforge::net {

IoLoop::IoLoop(int threads) : impl_(std::make_unique<Impl>(std::max(1, threads))) {}

void IoLoop::start() {
  while (impl_->threads.size() < static_cast<size_t>(impl_->count))
    impl_->threads.emplace_back([io = &impl_->io] { io->run(); });
}

IoLoop::~IoLoop() { stop(); }

void IoLoop::stop() {
  impl_->work.reset();
  for (auto& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

}  // namespace tritonforge::net
