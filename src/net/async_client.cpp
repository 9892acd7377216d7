#include "net/async_client.h"

#include <condition_variable>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "net/exchange.h"

namespace tritonforge::net {
namespace {

class Call final : public AsyncCall {
 public:
  explicit Call(const std::shared_ptr<ExchangeState>& state) : state_(state) {}
  void cancel() override {
    const auto state = state_.lock();
    if (!state) return;
    asio::post(state->stream.get_executor(), [state] {
      if (state->cut != ExchangeState::Cut::kNone) return;
      state->cut = ExchangeState::Cut::kCancelled;
      state->close();
    });
  }

 private:
  std::weak_ptr<ExchangeState> state_;
};

}  // namespace

struct AsyncClient::Impl {
  explicit Impl(const std::optional<TlsFiles>& tls) : pool(std::make_shared<SocketPool>(tls)) {}
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  const std::shared_ptr<SocketPool> pool;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::unordered_set<std::shared_ptr<AsyncCall>> calls;
};

AsyncClient::AsyncClient(int io_threads, const std::optional<TlsFiles>& tls) : impl_(std::make_unique<Impl>(tls)) {
  for (int i = 0; i < io_threads; ++i) impl_->threads.emplace_back([io = &impl_->io] { io->run(); });
}

AsyncClient::~AsyncClient() {
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& call : impl_->calls) call->cancel();
  }
  impl_->work.reset();
  for (auto& thread : impl_->threads) thread.join();
}

std::shared_ptr<AsyncCall> AsyncClient::send(AsyncRequest request, AsyncCallbacks callbacks) {
  auto state = std::make_shared<ExchangeState>(asio::make_strand(impl_->io));
  const auto call = std::make_shared<Call>(state);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->calls.insert(call);
  }
  callbacks.on_done = [impl = impl_.get(), call, done = std::move(callbacks.on_done)](std::optional<Error> error,
                                                                                      bool head_seen) {
    {
      const std::lock_guard lock(impl->mutex);
      impl->calls.erase(call);
    }
    done(std::move(error), head_seen);
  };
  asio::co_spawn(state->stream.get_executor(), exchange(state, impl_->pool, std::move(request), std::move(callbacks)),
                 [](std::exception_ptr failed) {
                   if (!failed) return;
                   try {
                     std::rethrow_exception(failed);
                   } catch (const std::exception& error) {
                     log::error("http client callback: {}", error.what());
                   }
                 });
  return call;
}

}  // namespace tritonforge::net
