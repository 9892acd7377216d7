#include <algorithm>
#include <charconv>
#include <mutex>

#include "base/log.h"
#include "net/version_barrier.h"
#include "router/proxy.h"

namespace tritonforge::router {

using net::Headers;

// One client's request. Its callbacks come from one thread, one attempt after the other: the server's own for this
// client or, where the request had to wait for its turn, that of the one that made room. The disconnect may come from
// another, so `mutex` guards `call` and `left`.
struct Proxy::Forward : std::enable_shared_from_this<Forward> {
  Forward(Proxy& proxy, net::Request& request, net::ResponderPtr reply, ClientKey key)
      : proxy(proxy),
        what(request.method + " " + request.path),
        target(std::move(request.target)),
        deadline(request.deadline),
        outgoing(proxy.outgoing(request, key)),
        hint(hint_of(outgoing.headers, outgoing.body ? std::string_view(*outgoing.body) : std::string_view())),
        reply(std::move(reply)) {
    outgoing.longest_reply.reset();  // streams have no end that is known; of what is held, on_head looks at the length
  }

  void start(Result<Admission::Ticket> admitted);
  void next();
  void on_head(int code, Headers headers);
  bool on_body(std::string_view bytes);
  void on_done(std::optional<Error> error, bool head_seen);
  void give_up();
  void cancel();

  Proxy& proxy;
  const std::string what, target;
  const Deadline deadline;
  net::AsyncRequest outgoing;
  const RouteHint hint;  // its prompt is a part of outgoing.body
  net::ResponderPtr reply;
  Admission::Ticket ticket;
  std::vector<WorkerPtr> tried;
  std::vector<std::string> failures;
  WorkerPtr worker;
  bool probe = false;  // of the worker's breaker

  // The reply of the current attempt.
  int status = 0;
  Headers head;
  std::string content_type, body;
  bool streaming = false, refused = false;  // refused: busy, another worker is asked
  bool brief = false;                       // its body is read to keep the connection, where nobody wants it
  bool too_long = false;                    // nobody could hold it

  std::mutex mutex;
  std::shared_ptr<net::AsyncCall> call;
  bool left = false;
  uint64_t admission = 0;
};

namespace {

bool is_busy(int status) { return status == 429 || status == 503; }

uint64_t bytes_of(const std::string& length) {
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
  return error == std::errc() ? bytes : UINT64_MAX;
}

// A client's own barrier stays where it is the higher one, or no number, which is the worker's to refuse.
void raise_barrier(Headers& headers, int64_t version) {
  const auto [header, added] = headers.try_emplace(net::kMinWeightVersion);
  std::string& wanted = header->second;
  int64_t own = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), own);
  const bool lower = error == std::errc() && end == wanted.data() + wanted.size() && own < version;
  if (added || lower) wanted = std::to_string(version);
}

}  // namespace

void Proxy::Forward::start(Result<Admission::Ticket> admitted) {
  if (admitted.ok()) {
    ticket = std::move(admitted).value();
    next();
    return;
  }
  proxy.metrics_.add("refused_total");
  reply->send(net::Response::error(admitted.error()));
  reply.reset();
}

void Proxy::Forward::next() {
  worker = proxy.registry_.take_probe(tried);
  probe = worker != nullptr;
  if (!probe) {
    const auto usable = proxy.registry_.usable(tried);
    if (usable.empty()) {
      give_up();
      return;
    }
    worker = proxy.policy_.pick(usable, hint);
  }
  if (!tried.empty()) proxy.metrics_.add("retries_total");
  tried.push_back(worker);
  status = 0;
  body.clear();
  refused = false;
  worker->begin(hint.tokens);
  outgoing.url = worker->url() + target;
  outgoing.timeout_s = std::max(0.001, deadline.remaining_s());
  if (const int64_t version = proxy.min_weight_version_; version > 0) raise_barrier(outgoing.headers, version);
  outgoing.headers["x-timeout-s"] = fmt::format("{:.3f}", outgoing.timeout_s);
  const auto self = shared_from_this();
  const std::lock_guard lock(mutex);
  if (left) {
    worker->end(hint.tokens);
    if (probe) worker->end_probe();
    return;
  }
  call = proxy.client_.send(
      std::shared_ptr<const net::AsyncRequest>(self, &outgoing),
      {[self](int code, Headers headers) { self->on_head(code, std::move(headers)); },
       [self](std::string_view bytes) { return self->on_body(bytes); },
       [self](std::optional<Error> error, bool head_seen) { self->on_done(std::move(error), head_seen); }});
  worker->sent(call);
}

void Proxy::Forward::on_head(int code, Headers headers) {
  status = code;
  head = std::move(headers);
  const auto type = head.extract("content-type");
  content_type = type.empty() ? "" : std::move(type.mapped());
  const auto length = head.find("content-length");  // stays: a reply to HEAD has no other
  const bool has_length = length != head.end();
  too_long = has_length && outgoing.method != "HEAD" && bytes_of(length->second) > net::kLongestReply;
  head.erase("transfer-encoding");
  head["x-worker"] = worker->url();
  refused = is_busy(code) && !proxy.registry_.usable(tried).empty();
  brief = has_length && length->second.size() <= 5;
  if (refused) return;
  // A reply of known length is passed on whole, so that it can still come from another worker if this one dies.
  if (!has_length && code != 204 && code != 304) {
    streaming = true;
    reply->begin_stream(code, content_type, head);
  }
}

bool Proxy::Forward::on_body(std::string_view bytes) {
  worker->heard();
  if (refused) return brief;
  if (too_long) return false;
  if (streaming) return reply->write(std::string(bytes));
  body += bytes;
  return true;
}

void Proxy::Forward::on_done(std::optional<Error> error, bool head_seen) {
  worker->end(hint.tokens);
  {
    const std::lock_guard lock(mutex);
    worker->done(call);
    call.reset();
    if (left) {
      if (probe) worker->end_probe();
      return;
    }
  }
  if (!error && too_long)
    error = Error(ErrorKind::kUnavailable,
                  fmt::format("{}: a reply of more than {} bytes", outgoing.url, net::kLongestReply));
  worker->count(error ? 0 : status);
  if (!error) {
    worker->answered();
    if (refused) {
      failures.push_back(fmt::format("{} is busy ({})", worker->url(), status));
      next();
    } else if (streaming) {
      reply->end_stream();
    } else {
      reply->send({status, std::move(body), content_type, std::move(head)});
    }
    return;
  }
  if (error->kind() == ErrorKind::kTimeout) {
    if (probe) worker->end_probe();
    if (!streaming) reply->send(net::Response::error(*error));
    reply.reset();
    return;
  }
  worker->failed(error->what());
  if (streaming) {
    log::warn("{}: {}", what, error->what());
    reply.reset();  // cuts the client's stream
    return;
  }
  log::warn("{}: {}", what, error->what());
  failures.push_back(error->what());
  next();
}

void Proxy::Forward::give_up() {
  if (tried.empty()) proxy.metrics_.add("refused_total");
  const auto all = proxy.registry_.all();
  if (all.empty()) failures.push_back("no worker is registered (POST /add_worker?url=)");
  for (const auto& one : all) {
    if (std::find(tried.begin(), tried.end(), one) != tried.end()) continue;
    const auto last = one->status();
    failures.push_back(last.draining ? one->url() + " is draining"
                                     : fmt::format("{} is {}: {}", one->url(), name_of(last.state), last.last_error));
  }
  reply->send(net::Response::error(
      Error(ErrorKind::kUnavailable, fmt::format("{}: no worker could take it: {}", what, fmt::join(failures, "; ")))));
  reply.reset();
}

void Proxy::Forward::cancel() {
  uint64_t waiting = 0;
  {
    const std::lock_guard lock(mutex);
    left = true;
    if (call) call->cancel();
    waiting = admission;
  }
  proxy.admission_.cancel(waiting);
}

void Proxy::forward(net::Request& request, net::ResponderPtr reply, ClientKey key) {
  const auto header = request.headers.find(kPriorityHeader);
  const std::string name = header == request.headers.end() ? "" : header->second;
  const Priority priority = optional_from_name<Priority>(name, kPriorityHeader).value_or(Priority::kTraining);
  const Deadline deadline = request.deadline;
  const auto one = std::make_shared<Forward>(*this, request, reply, key);
  reply->on_disconnect([weak = std::weak_ptr(one)] {
    if (const auto alive = weak.lock()) alive->cancel();
  });
  reply.reset();
  const uint64_t id = admission_.ask(priority, deadline,
                                     [one](Result<Admission::Ticket> admitted) { one->start(std::move(admitted)); });
  bool left = false;
  {
    const std::lock_guard lock(one->mutex);
    one->admission = id;
    left = one->left;
  }
  if (left) admission_.cancel(id);
}

}  // namespace tritonforge::router
