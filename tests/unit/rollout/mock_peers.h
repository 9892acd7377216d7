#pragma once
// An engine and an evaluator in this process, and a codec whose tokens are bytes, for tests of what stands between
// them.
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "net/http.h"
#include "rollout/codec.h"
#include "rollout/service.h"

namespace tritonforge::rollout {

inline constexpr int64_t kEnd = 256;  // the end-of-turn token; 0..255 are bytes

// Of SGLang's SamplingParams what is sent here; of any other name it dies with 500.
inline const std::set<std::string> kSamplingNames = {
    "temperature", "top_p", "top_k", "min_p", "max_new_tokens", "stop_token_ids", "no_stop_trim", "sampling_seed"};

inline std::vector<int64_t> byte_tokens(const std::string& text) {
  std::vector<int64_t> out;
  for (unsigned char c : text) out.push_back(c);
  return out;
}

class ByteCodec : public ChatCodec {
 public:
  std::vector<int64_t> opening(const std::vector<tokenizer::Message>& messages, bool) const override {
    std::string text;
    for (const tokenizer::Message& m : messages) text += "<" + m.role + ">" + m.content + "\n";
    return byte_tokens(text + "<assistant>");
  }
  std::vector<int64_t> continuation(const std::vector<int64_t>& response,
                                    const std::vector<tokenizer::Message>& messages, bool) const override {
    auto out = byte_tokens("\n<user>" + messages.at(0).content + "\n<assistant>");
    if (response.empty() || response.back() != kEnd) out.insert(out.begin(), kEnd);
    return out;
  }
  std::vector<int64_t> answer(const tokenizer::Message& message, bool) const override {
    auto out = byte_tokens(message.content);
    out.push_back(kEnd);
    return out;
  }
  std::string text(const std::vector<int64_t>& tokens) const override {
    std::string out;
    for (int64_t t : tokens) {
      if (t < 256) out.push_back(static_cast<char>(t));
    }
    return out;
  }
  std::vector<int64_t> stop_tokens() const override { return {kEnd}; }
};

inline std::string answer_with(const std::string& mark) {
  return "```python\n# " + mark + "\nclass ModelNew:\n    def forward(self, x): return x\n```";
}

// Answers with answer_with("seed <seed>") unless told otherwise; the evaluator judges by `judge`.
class MockPeers {
 public:
  using Engine = std::function<net::Response(const Json& body)>;
  using Judge = std::function<Verdict(const std::string& code)>;

  MockPeers() : server_(net::ServerOptions{.worker_threads = 8}) {
    engine = [](const Json& body) {
      return reply(body, answer_with("seed " + body["sampling_params"]["sampling_seed"].dump()), "stop");
    };
    chat = [](const Json& body) {
      const std::string text = answer_with(fmt::format("after {} messages", body["messages"].size()));
      return net::Response::json(
          {{"choices", {{{"message", {{"role", "assistant"}, {"content", text}}}, {"finish_reason", "stop"}}}}});
    };
    judge = [](const std::string&) { return failed(); };
    server_.route("POST", "/generate", [this](const net::Request& r) {
      const Json body = r.json();
      {
        std::lock_guard lock(mutex);
        requests.push_back(body);
        engine_headers = r.headers;
      }
      ++generations;
      for (const auto& [name, value] : body["sampling_params"].items()) {
        if (!kSamplingNames.contains(name))
          return net::Response::text(fmt::format("TypeError: Unexpected keyword argument '{}'", name), 500);
      }
      return engine(body);
    });
    server_.route("POST", "/chat/completions", [this](const net::Request& r) {
      const Json body = r.json();
      {
        std::lock_guard lock(mutex);
        requests.push_back(body);
        engine_headers = r.headers;
        const auto key = r.headers.find("authorization");
        authorization = key == r.headers.end() ? "" : key->second;
      }
      ++generations;
      return chat(body);
    });
    server_.route("POST", "/v2/evaluations", [this](const net::Request& r) {
      ++evaluations;
      {
        std::lock_guard lock(mutex);
        evaluator_headers = r.headers;
        judged.push_back(r.json());
      }
      if (const int status = evaluator_status.load(); status != 200)
        return net::Response::json({{"error", {{"message", "down"}, {"type", "unavailable"}}}}, status);
      return net::Response::json(to_json(judge(r.json()["candidate"].get<std::string>())));
    });
    server_.route("POST", "/v2/problems", [this](const net::Request& r) {
      std::lock_guard lock(mutex);
      prepared.push_back(r.json());
      return net::Response::json({{"accepted", true}}, 202);
    });
    server_.start();
  }

  static net::Response reply(const Json& body, const std::string& text, const std::string& finish,
                             int64_t version = 3) {
    auto tokens = byte_tokens(text);
    if (finish == "stop") tokens.push_back(kEnd);
    Json logprobs = Json::array();
    for (int64_t t : tokens) logprobs.push_back({-0.5, t, nullptr});
    return net::Response::json({{"text", text},
                                {"output_ids", tokens},
                                {"meta_info",
                                 {{"id", "x"},
                                  {"finish_reason", {{"type", finish}}},
                                  {"output_token_logprobs", logprobs},
                                  {"weight_version", std::to_string(version)}}}});
  }
  static Verdict failed() {
    Verdict verdict;
    verdict.stage = Stage::kLaunched;
    verdict.compiled = true;
    verdict.fault = Fault::kMismatch;
    verdict.diagnostics = "output 0 is wrong";
    return verdict;
  }
  static Verdict correct() {
    Verdict verdict;
    verdict.stage = Stage::kCorrect;
    verdict.compiled = verdict.correct = true;
    return verdict;
  }

  PeerOptions options() const {
    PeerOptions out;
    out.router = out.evaluator = server_.url();
    out.patience_s = 20;
    out.first_pause_s = 0.01;
    out.longest_pause_s = 0.05;
    return out;
  }

  net::Headers engine_headers, evaluator_headers;  // of the last request
  Engine engine, chat;
  Judge judge;
  std::atomic<int> generations{0}, evaluations{0}, evaluator_status{200};
  std::mutex mutex;
  std::vector<Json> requests, judged, prepared;  // of the engine; evaluations, and the problems asked for before
  std::string authorization;                     // of the last chat

 private:
  net::HttpServer server_;
};

inline GroupSpec group_spec(const std::string& id, int64_t samples = 2) {
  GroupSpec group;
  group.id = id;
  group.problem_id = "p";
  group.problem_source = "class Model: pass";
  group.n_samples = samples;
  group.seed = 7;
  group.options.prompt = PromptStyle::kMinimal;
  group.options.sampling.max_new_tokens = 500;
  return group;
}

}  // namespace tritonforge::rollout
