#include "router/ask.h"

#include <future>
#include <mutex>

namespace tritonforge::router {
namespace {

// Collects a reply, streamed or not. Its last handle's end is an answer, too.
class Awaited final : public net::Responder {
 public:
  ~Awaited() override {
    complete(net::Response::error(Error(ErrorKind::kUnavailable, "the peer was lost in the middle of its reply")));
  }
  void send(net::Response response) override { complete(std::move(response)); }
  void begin_stream(int status, const std::string& content_type, const net::Headers& headers) override {
    const std::lock_guard lock(mutex_);
    streamed_ = {status, "", content_type, headers};
  }
  bool write(std::string chunk) override {
    const std::lock_guard lock(mutex_);
    streamed_.body += chunk;
    return true;
  }
  void end_stream() override { complete(std::move(streamed_)); }
  bool connected() const override { return true; }
  void on_disconnect(std::function<void()>) override {}
  std::future<net::Response> reply() { return reply_.get_future(); }

 private:
  void complete(net::Response response) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(done_, true)) reply_.set_value(std::move(response));
  }
  std::mutex mutex_;
  std::promise<net::Response> reply_;
  net::Response streamed_;
  bool done_ = false;
};

}  // namespace

net::Response ask(Router& router, net::Request request) {
  auto awaited = std::make_shared<Awaited>();
  auto reply = awaited->reply();
  router.forward(request, std::move(awaited));
  return reply.get();  // the router answers by the deadline
}

}  // namespace tritonforge::router
