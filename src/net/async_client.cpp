#include "net/async_client.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "net/exchange.h"

namespace tritonforge::net {
namespace {

class Call final : public AsyncCall {
 public:
  explicit Call(const std::shared_ptr<ExchangeState>& state) : state_(state) {}
  void cancel(std::optional<Error> reason) override {
    if (auto state = state_.lock())
      asio::post(state->executor, [state, reason = std::move(reason)] { state->cancel_for(reason); });
  }

 private:
  const std::weak_ptr<ExchangeState> state_;
};

}  // namespace

AsyncCallbacks whole_reply(std::function<void(Result<Response> reply)> done) {
  auto gathered = std::make_shared<Response>();
  AsyncCallbacks callbacks;
  callbacks.on_head = [gathered](int status, Headers headers) {
    gathered->status = status;
    gathered->headers = std::move(headers);
    const auto type = gathered->headers.find("content-type");
    gathered->content_type = type == gathered->headers.end() ? "" : type->second;
  };
  callbacks.on_body = [gathered](std::string_view bytes) {
    gathered->body += bytes;
    return true;
  };
  callbacks.on_done = [gathered, done = std::move(done)](std::optional<Error> error, bool) {
    if (error) done(*std::move(error));
    else done(std::move(*gathered));
  };
  return callbacks;
}

struct AsyncClient::Impl {
  explicit Impl(const std::optional<TlsFiles>& files) : tls(client_tls(files)) { own->start(); }

  struct Place {
    std::shared_ptr<Loop> loop;
    std::shared_ptr<SocketPool> pool;  // touched on the loop alone
  };
  std::shared_ptr<SocketPool> pool_on(const std::shared_ptr<Loop>& loop);
  awaitable<void> run(Place at, std::shared_ptr<ExchangeState> state, std::shared_ptr<const AsyncRequest> request,
                      AsyncCallbacks callbacks);

  const TlsContextPtr tls;
  const std::shared_ptr<Loop> own = std::make_shared<Loop>();
  std::mutex mutex;
  std::condition_variable idle;
  size_t under_way = 0;
  std::vector<Place> places;  // where it has been used
};

std::shared_ptr<SocketPool> AsyncClient::Impl::pool_on(const std::shared_ptr<Loop>& loop) {
  const std::lock_guard lock(mutex);
  ++under_way;
  const auto known = std::find_if(places.begin(), places.end(), [&](const Place& one) { return one.loop == loop; });
  if (known != places.end()) return known->pool;
  return places.emplace_back(Place{loop, std::make_shared<SocketPool>(tls)}).pool;
}

awaitable<void> AsyncClient::Impl::run(Place at, std::shared_ptr<ExchangeState> state,
                                       std::shared_ptr<const AsyncRequest> request, AsyncCallbacks callbacks) {
  try {
    co_await exchange(state, std::move(at.pool), *request, std::move(callbacks));
  } catch (const std::exception& error) {
    log::error("http client callback: {}", error.what());
  }
  request.reset();  // what it belongs to may be of those who wait for the end
  at.loop->remove(state.get());
  const std::lock_guard lock(mutex);
  if (--under_way == 0) idle.notify_all();
}

AsyncClient::AsyncClient(const std::optional<TlsFiles>& tls) : impl_(std::make_unique<Impl>(tls)) {}

AsyncClient::~AsyncClient() {
  {
    std::unique_lock lock(impl_->mutex);
    for (const auto& place : impl_->places) place.loop->cancel_tasks(impl_.get());
    impl_->idle.wait(lock, [this] { return impl_->under_way == 0; });
  }
  impl_->own->finish();
  // Idle connections are closed where they live; where that has ended already, with it.
  for (auto& place : impl_->places) asio::post(place.loop->io, [pool = std::move(place.pool)] {});
}

std::shared_ptr<AsyncCall> AsyncClient::send(std::shared_ptr<const AsyncRequest> request, AsyncCallbacks callbacks) {
  Impl* const impl = impl_.get();
  std::shared_ptr<ExchangeState> state;
  const auto begin_on = [&](const std::shared_ptr<Loop>& loop) {
    state = std::make_shared<ExchangeState>(loop->io.get_executor());
    state->owner = impl;
    return loop->add(state.get());
  };
  auto loop = Loop::current();
  if (!loop || !begin_on(loop)) begin_on(loop = impl->own);
  auto call = std::make_shared<Call>(state);
  Impl::Place at{loop, impl->pool_on(loop)};
  auto& io = loop->io;
  asio::co_spawn(io, impl->run(std::move(at), std::move(state), std::move(request), std::move(callbacks)),
                 asio::detached);
  return call;
}

}  // namespace tritonforge::net
