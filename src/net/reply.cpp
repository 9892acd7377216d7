#include "net/reply.h"

#include <cstdlib>

#include "base/log.h"
#include "net/wire.h"

namespace tritonforge::net {

namespace {

// Of the body; of a reply to HEAD that is passed on, of the one that its headers speak of.
long long length_of(const Response& response, bool head_only) {
  const auto said = response.headers.find("content-length");
  return head_only && said != response.headers.end() ? std::atoll(said->second.c_str())
                                                     : static_cast<long long>(response.body.size());
}

}  // namespace

Reply::Reply(Framing framing, std::function<void(bool)> wake, std::shared_ptr<const std::atomic<bool>> draining)
    : framing_(std::move(framing)),
      wake_(std::move(wake)),
      draining_(std::move(draining)),
      keep_alive_(framing_.keep_alive) {}

void Reply::push(std::string piece) {
  unread_ += piece.size();
  if (!pieces_.empty() && pieces_.back().size() + piece.size() < (1u << 16)) pieces_.back() += piece;
  else pieces_.push_back(std::move(piece));
}

void Reply::notify(std::unique_lock<std::mutex> lock) {
  if (woken_) return;
  woken_ = true;
  const bool last = phase_ == Phase::kFinished || phase_ == Phase::kCut;
  lock.unlock();
  wake_(last);
}

void Reply::send(Response response) {
  std::vector<std::function<void()>> dead;  // outlives the lock: a callback may hold the handle
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kWaiting) {
    log::warn("request {}: a second reply ({}) was dropped", framing_.request_id, response.status);
    return;
  }
  keep_alive_ = keep_alive_ && !*draining_;
  push(response_head(response.status, response.content_type, response.headers, length_of(response, framing_.head_only),
                     framing_.request_id, keep_alive_, framing_.http_1_0));
  if (!framing_.head_only && response.status != 204 && response.status != 304 && !response.body.empty()) {
    push(std::move(response.body));
  }
  phase_ = Phase::kFinished;
  dead = std::exchange(callbacks_, {});
  notify(std::move(lock));
}

void Reply::begin_stream(int status, const std::string& content_type, const Headers& headers) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kWaiting) {
    log::warn("request {}: a second reply (stream) was dropped", framing_.request_id);
    return;
  }
  // Without chunks, the end of the connection is the end of the body.
  keep_alive_ = keep_alive_ && !*draining_ && !framing_.http_1_0;
  push(response_head(status, content_type, headers, -1, framing_.request_id, keep_alive_, framing_.http_1_0));
  phase_ = Phase::kStreaming;
  notify(std::move(lock));
}

bool Reply::write(std::string_view chunk) {
  std::unique_lock lock(mutex_);
  if (gone_ || phase_ != Phase::kStreaming) return false;
  if (chunk.empty() || framing_.head_only) return true;
  if (unread_ + chunk.size() > kMaxUnread && unread_ > 0) {
    log::warn("request {}: the client left {} bytes unread and is disconnected", framing_.request_id, unread_);
    phase_ = Phase::kCut;
    pieces_.clear();
    notify(std::move(lock));
    return false;
  }
  push(framing_.http_1_0 ? std::string(chunk) : chunk_of(chunk));
  notify(std::move(lock));
  return true;
}

void Reply::end_stream() {
  std::vector<std::function<void()>> dead;
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kStreaming) return;
  if (!framing_.http_1_0 && !framing_.head_only) push("0\r\n\r\n");
  phase_ = Phase::kFinished;
  dead = std::exchange(callbacks_, {});
  notify(std::move(lock));
}

void Reply::abandon() {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kWaiting) {
    lock.unlock();
    if (connected()) log::error("request {}: the handler dropped it without a reply", framing_.request_id);
    send(Response::error(Error(ErrorKind::kInternal, "the handler dropped the request without a reply")));
  } else if (phase_ == Phase::kStreaming) {
    phase_ = Phase::kCut;
    notify(std::move(lock));
  }
}

bool Reply::connected() const {
  const std::lock_guard lock(mutex_);
  return !gone_;
}

void Reply::on_disconnect(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

Reply::Output Reply::take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return {std::exchange(pieces_, {}), phase_ == Phase::kFinished || phase_ == Phase::kCut, phase_ == Phase::kCut,
          keep_alive_};
}

void Reply::written(size_t bytes) {
  const std::lock_guard lock(mutex_);
  unread_ -= std::min(bytes, unread_);
}

void Reply::client_gone() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    callbacks = std::exchange(callbacks_, {});
    if (phase_ == Phase::kFinished) callbacks.clear();
  }
  for (const auto& callback : callbacks) callback();
}

}  // namespace tritonforge::net
