#pragma once
// The reply under way on one connection: handlers fill it from any thread, the connection's coroutine drains it.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/http.h"

namespace tritonforge::net {

class Reply {
 public:
  static constexpr size_t kMaxUnread = size_t{8} << 20;

  struct Framing {
    std::string request_id;
    bool head_only = false;  // HEAD: headers only
    bool http_1_0 = false;
    bool keep_alive = true;
  };
  // `wake` is called (from any thread) when there is something to take, true: nothing comes after it; `draining` forces
  // "Connection: close".
  Reply(Framing framing, std::function<void(bool)> wake, std::shared_ptr<const std::atomic<bool>> draining);

  // Handlers' side.
  void send(Response response);
  void begin_stream(int status, const std::string& content_type, const Headers& headers);
  bool write(std::string_view chunk);
  void end_stream();
  void abandon();  // the last handle went: 500, or a cut stream
  bool connected() const;
  void on_disconnect(std::function<void()> callback);

  // Connection's side.
  struct Output {
    std::vector<std::string> pieces;
    bool finished = false;  // nothing follows
    bool cut = false;       // the connection must be closed without the end of the message
    bool keep_alive = false;
  };
  Output take();
  void written(size_t bytes);
  void client_gone();  // runs the disconnect callbacks, unless the reply was complete

 private:
  enum class Phase { kWaiting, kStreaming, kFinished, kCut };
  void push(std::string piece);  // with the mutex held
  void notify(std::unique_lock<std::mutex> lock);

  const Framing framing_;
  const std::function<void(bool)> wake_;
  const std::shared_ptr<const std::atomic<bool>> draining_;
  mutable std::mutex mutex_;
  Phase phase_ = Phase::kWaiting;
  std::vector<std::string> pieces_;
  size_t unread_ = 0;
  bool keep_alive_, gone_ = false, woken_ = false;
  std::vector<std::function<void()>> callbacks_;
};

// What a handler holds. Its end is the handler's last word.
class ReplyHandle final : public Responder {
 public:
  explicit ReplyHandle(std::shared_ptr<Reply> reply) : reply_(std::move(reply)) {}
  ~ReplyHandle() override { reply_->abandon(); }
  void send(Response response) override { reply_->send(std::move(response)); }
  void begin_stream(int status, const std::string& content_type, const Headers& headers) override {
    reply_->begin_stream(status, content_type, headers);
  }
  bool write(std::string chunk) override { return reply_->write(chunk); }
  void end_stream() override { reply_->end_stream(); }
  bool connected() const override { return reply_->connected(); }
  void on_disconnect(std::function<void()> callback) override { reply_->on_disconnect(std::move(callback)); }

 private:
  std::shared_ptr<Reply> reply_;
};

}  // namespace tritonforge::net
