#include "engine/exchange.h"

#include <gtest/gtest.h>

#include <future>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/definition.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

class FakeResponder : public net::Responder {
 public:
  void send(net::Response response) override {
    body = response.body;
    done.set_value();
  }
  void begin_stream(int status, const std::string&, const net::Headers&) override { began = status; }
  bool write(std::string chunk) override {
    events.push_back(std::move(chunk));
    return true;
  }
  void end_stream() override { done.set_value(); }
  bool connected() const override { return true; }
  void on_disconnect(std::function<void()> callback) override { hang_up = std::move(callback); }

  std::string body;
  int began = 0;
  std::vector<std::string> events;
  std::promise<void> done;
  std::function<void()> hang_up;
};

// Events are the number of tokens so far.
class CountingExchange : public Exchange {
 public:
  using Exchange::Exchange;
  std::vector<Json> events(size_t index) override { return {latest_[index].samples[0].output_ids.size()}; }
  Json reply() override { return latest_[0].samples[0].output_ids; }
};

Request request_of(int64_t tokens, bool stream) {
  Request request;
  request.id = "r";
  request.prompt_ids = prompt_of(5, 1);
  request.sampling.max_new_tokens = tokens;
  request.stream = stream;
  return request;
}

// The queue's thread is held: what the engine generates meanwhile must not pile up there, and none of it is lost.
TEST(Exchange, AStreamThatIsNotWrittenWaitsAsOneJob) {
  Engine engine(small_options(), tiny_model(), nullptr);
  JobQueue jobs(1);
  const auto responder = std::make_shared<FakeResponder>();
  std::promise<void> launched, leave;
  jobs.submit([&] {
    std::make_shared<CountingExchange>(engine, jobs, responder, true)
        ->launch({request_of(200, true)}, Deadline::after(60));
    launched.set_value();
    leave.get_future().wait();
  });
  launched.get_future().wait();
  while (engine.stats().finished_requests == 0) std::this_thread::yield();
  engine.flush_cache();  // the last output is delivered
  EXPECT_EQ(jobs.queued(), 1u);
  leave.set_value();
  responder->done.get_future().wait();
  EXPECT_EQ(responder->began, 200);
  EXPECT_EQ(responder->events, (std::vector<std::string>{net::sse_event("200"), net::sse_event("[DONE]")}));
}

TEST(Exchange, AWholeAnswerIsOneReply) {
  Engine engine(small_options(), tiny_model(), nullptr);
  JobQueue jobs(1);
  const auto responder = std::make_shared<FakeResponder>();
  std::make_shared<CountingExchange>(engine, jobs, responder, false)
      ->launch({request_of(9, false)}, Deadline::after(60));
  responder->done.get_future().wait();
  EXPECT_EQ(Json::parse(responder->body).size(), 9u);
  EXPECT_TRUE(responder->events.empty());
}

TEST(Exchange, OneRefusedRequestRefusesAll) {
  Engine engine(small_options(), tiny_model(), nullptr);
  JobQueue jobs(1);
  const auto responder = std::make_shared<FakeResponder>();
  Request bad = request_of(5, false);
  bad.id = "bad";
  bad.sampling.top_p = 2;
  const auto exchange = std::make_shared<CountingExchange>(engine, jobs, responder, false);
  EXPECT_THROW(exchange->launch({request_of(200, false), bad}, Deadline::after(60)), Error);
  while (engine.stats().ended_samples == 0) std::this_thread::yield();
  EXPECT_EQ(engine.stats().aborted_requests + engine.stats().finished_requests, 1);
}

// The second client's list holds an id that the first one's request has: it is refused, and stays the first one's.
TEST(Exchange, WhoHangsUpAbortsNoRequestOfAnother) {
  Engine engine(small_options(), tiny_model(), nullptr);
  JobQueue jobs(1);
  const auto first = std::make_shared<FakeResponder>(), second = std::make_shared<FakeResponder>();
  engine.pause();
  std::make_shared<CountingExchange>(engine, jobs, first, false)->launch({request_of(9, false)}, Deadline::after(60));
  Request other = request_of(200, false);
  other.id = "other";
  std::make_shared<CountingExchange>(engine, jobs, second, false)
      ->launch({request_of(9, false), other}, Deadline::after(60));
  second->hang_up();
  engine.resume();
  first->done.get_future().wait();
  EXPECT_EQ(Json::parse(first->body).size(), 9u);
  second->done.get_future().wait();
  EXPECT_EQ(engine.stats().generated_tokens, 9);
}

std::shared_ptr<const tokenizer::Tokenizer> of_bytes() {
  tokenizer::TokenizerDefinition definition;
  for (int byte = 0; byte < 256; ++byte)
    definition.tokens.push_back(tokenizer::to_byte_alphabet(std::string(1, static_cast<char>(byte))));
  return std::make_shared<const tokenizer::Tokenizer>(std::move(definition));
}

// A body may ask for less time than its x-timeout-s, and is aborted then; asking for more changes nothing.
TEST(Exchange, ABodysOwnTimeoutIsItsDeadline) {
  Engine engine(small_options(), tiny_model(), of_bytes());
  JobQueue jobs(1);
  engine.pause();
  for (const auto& [own, header] : {std::pair(0.02, 3600.0), std::pair(3600.0, 0.02)}) {
    const auto responder = std::make_shared<FakeResponder>();
    auto body = generate_from_json({{"input_ids", {1, 2}}, {"timeout_s", own}}, *engine.tokenizer(), "r");
    std::make_shared<GenerateExchange>(engine, jobs, responder, std::move(body))->launch(Deadline::after(header));
    ASSERT_EQ(responder->done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_EQ(Json::parse(responder->body)["meta_info"]["finish_reason"]["type"], "abort");
  }
}

class BytesExchange : public CountingExchange {
 public:
  using CountingExchange::CountingExchange;
  std::vector<Json> events(size_t) override { return {"\xff"}; }
};

// A client's x-request-id may be any bytes, and is the id of its request where the body names none.
TEST(Exchange, BytesThatAreNoTextAreReplacedInAStreamToo) {
  Engine engine(small_options(), tiny_model(), nullptr);
  JobQueue jobs(1);
  const auto responder = std::make_shared<FakeResponder>();
  std::make_shared<BytesExchange>(engine, jobs, responder, true)->launch({request_of(1, true)}, Deadline::after(60));
  responder->done.get_future().wait();
  EXPECT_EQ(responder->events.front(), net::sse_event("\"\xEF\xBF\xBD\""));
}

}  // namespace
}  // namespace tritonforge::engine
