#include "engine/exchange.h"

#include <utility>

namespace tritonforge::engine {

Exchange::Exchange(Engine& engine, JobQueue& jobs, net::ResponderPtr responder, bool stream)
    : engine_(engine), jobs_(jobs), responder_(std::move(responder)), stream_(stream) {}

void Exchange::launch(std::vector<Request> requests, Deadline deadline) {
  latest_.resize(requests.size());
  mailbox_.resize(requests.size());
  unfinished_ = requests.size();
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sender = this;
    requests[i].deadline = deadline;
    requests[i].on_output = [self = shared_from_this(), i](Output part) { self->receive(i, std::move(part)); };
    const auto accepted = engine_.submit(std::move(requests[i]));
    if (accepted) continue;
    closed_ = true;  // the requests submitted so far end quietly
    abort("a request of the same list was refused");
    throw accepted.error();
  }
  if (stream_) responder_->begin_stream(200, "text/event-stream", {{"cache-control", "no-cache"}});
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->abort("the client went away");
  });
}

void Exchange::receive(size_t index, Output part) {
  {
    const std::lock_guard lock(mutex_);
    if (mailbox_[index]) mailbox_[index]->append(std::move(part));
    else mailbox_[index] = std::move(part);
    if (std::exchange(scheduled_, true)) return;
  }
  jobs_.submit([self = shared_from_this()] { self->advance(); });
}

void Exchange::advance() {
  // Empties the mailbox: from here on the next part is a new job.
  std::vector<std::optional<Output>> parts(latest_.size());
  {
    const std::lock_guard lock(mutex_);
    parts.swap(mailbox_);
    scheduled_ = false;
  }
  if (closed_) return;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) continue;
    if (parts[i]->finished) --unfinished_;
    latest_[i].append(*std::move(parts[i]));
    if (!stream_) continue;
    for (const Json& event : events(i)) {
      if (!write(event)) return;
    }
  }
  if (unfinished_ > 0) return;

  // Everything is there: the reply, or the end of the stream.
  closed_ = true;
  if (!stream_) return responder_->send(net::Response::json(reply()));
  for (const Json& event : last_events()) {
    if (!write(event)) return;
  }
  responder_->write(net::sse_event("[DONE]"));
  responder_->end_stream();
}

// Bytes that are no text are replaced, as in a reply that is whole: a client's x-request-id may hold any.
bool Exchange::write(const Json& event) {
  const std::string text = event.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (responder_->write(net::sse_event(text))) return true;
  closed_ = true;
  abort("the client went away");
  return false;
}

void Exchange::abort(const std::string& why) { engine_.abort_of(shared_from_this(), why); }

// ---- /generate ----

GenerateExchange::GenerateExchange(Engine& engine, JobQueue& jobs, net::ResponderPtr responder, GenerateBody body)
    : Exchange(engine, jobs, std::move(responder), body.stream),
      body_(std::move(body)),
      list_(body_.list || body_.requests.size() > 1 || body_.requests[0].request.sampling.n > 1),
      tokenizer_(*engine.tokenizer()),
      over_(body_.requests.size()) {
  int64_t samples = 0;
  for (const GenerateRequest& each : body_.requests) {
    first_index_.push_back(samples);
    samples += each.request.sampling.n;
  }
}

void GenerateExchange::launch(Deadline deadline) {
  std::vector<Request> requests;
  for (const GenerateRequest& each : body_.requests) requests.push_back(each.request);
  Exchange::launch(std::move(requests), sooner(deadline, body_.timeout_s));
}

std::vector<Json> GenerateExchange::events(size_t index) {
  const Output& output = latest_[index];
  std::vector<Json> changed, all = generate_to_json(output, body_.requests[index], tokenizer_);
  auto& over = over_[index];
  over.resize(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (over[i]) continue;
    over[i] = output.samples[i].finish != FinishReason::kNone;
    if (list_) all[i]["index"] = first_index_[index] + static_cast<int64_t>(i);
    changed.push_back(std::move(all[i]));
  }
  return changed;
}

Json GenerateExchange::reply() {
  Json all = Json::array();
  for (size_t i = 0; i < latest_.size(); ++i) {
    for (Json& sample : generate_to_json(latest_[i], body_.requests[i], tokenizer_)) all.push_back(std::move(sample));
  }
  return list_ ? all : all[0];
}

// ---- OpenAI ----

OpenAiExchange::OpenAiExchange(Engine& engine, JobQueue& jobs, net::ResponderPtr responder, OpenAiRequest request)
    : Exchange(engine, jobs, std::move(responder), request.stream),
      request_(std::move(request)),
      tokenizer_(*engine.tokenizer()),
      sent_(request_.requests.size()) {}

void OpenAiExchange::launch(Deadline deadline) {
  Exchange::launch(request_.requests, sooner(deadline, request_.timeout_s));
}

std::vector<Json> OpenAiExchange::events(size_t index) {
  return openai_chunks(request_, latest_[index], index, sent_[index], tokenizer_);
}

Json OpenAiExchange::reply() { return openai_reply(request_, latest_, tokenizer_); }

std::vector<Json> OpenAiExchange::last_events() {
  if (!request_.include_usage) return {};
  return {openai_usage_chunk(request_, latest_)};
}

}  // namespace tritonforge::engine
