#pragma once
// One HTTP exchange over one or several engine requests: submits them, gathers what they generate, and answers whole or
// as a stream of events. The engine's thread only drops what is new into a mailbox; the rest happens on the server's
// job queue, where each exchange has at most one job waiting: what comes meanwhile is joined to what is there.
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/job_queue.h"
#include "base/json.h"
#include "engine/engine.h"
#include "engine/openai.h"
#include "engine/wire.h"
#include "net/http.h"

namespace tritonforge::engine {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // `jobs` has one thread and outlives the engine's requests; launch() is called on it.
  Exchange(Engine& engine, JobQueue& jobs, net::ResponderPtr responder, bool stream);
  virtual ~Exchange() = default;
  // Submits all requests or, where one is refused, none: throws the refusal.
  void launch(std::vector<Request> requests, Deadline deadline);

 protected:
  // What the outputs are as JSON. `latest` holds everything that came so far, one entry a request.
  virtual std::vector<Json> events(size_t index) = 0;  // what the last part of latest[index] adds to the stream
  virtual Json reply() = 0;
  virtual std::vector<Json> last_events() { return {}; }
  std::vector<Output> latest_;

 private:
  void receive(size_t index, Output part);  // on the engine's thread
  void advance();                           // on the job queue's
  bool write(const Json& event);            // false: the client is gone
  void abort(const std::string& why);

  Engine& engine_;
  JobQueue& jobs_;
  const net::ResponderPtr responder_;
  const bool stream_;
  size_t unfinished_ = 0;
  bool closed_ = false;

  std::mutex mutex_;  // the mailbox
  std::vector<std::optional<Output>> mailbox_;
  bool scheduled_ = false;  // a job to empty it waits
};

// POST /generate, in SGLang's form: every event of a stream is the whole answer so far.
class GenerateExchange : public Exchange {
 public:
  GenerateExchange(Engine& engine, JobQueue& jobs, net::ResponderPtr responder, GenerateBody body);
  void launch(Deadline deadline);

 private:
  std::vector<Json> events(size_t index) override;
  Json reply() override;
  const GenerateBody body_;
  const bool list_;  // the reply is a list
  const tokenizer::Tokenizer& tokenizer_;
  std::vector<int64_t> first_index_;     // of each request's samples among all
  std::vector<std::vector<bool>> over_;  // the last event of a sample was sent
};

// POST /v1/chat/completions and /v1/completions: every event holds what is new.
class OpenAiExchange : public Exchange {
 public:
  OpenAiExchange(Engine& engine, JobQueue& jobs, net::ResponderPtr responder, OpenAiRequest request);
  void launch(Deadline deadline);

 private:
  std::vector<Json> events(size_t index) override;
  Json reply() override;
  std::vector<Json> last_events() override;
  const OpenAiRequest request_;
  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::vector<StreamedSample>> sent_;
};

}  // namespace tritonforge::engine
