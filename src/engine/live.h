#pragma once
// A request inside the engine's thread: its samples as sequences of the scheduler, and when each of them ends.
#include <memory>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "engine/sample_text.h"
#include "engine/scheduler.h"
#include "kernels/sample.h"

namespace tritonforge::engine {

struct LiveRequest;

struct LiveSample {
  Sequence sequence;
  LiveRequest* request = nullptr;
  int64_t index = 0;
  kernels::SampleRow row;          // `position` is set before each draw
  std::optional<SampleText> text;  // where stop strings or a stream need it as it grows
  size_t text_taken = 0;           // bytes of it
  Sample& out() const;             // what was not taken yet
  bool finished() const { return out().finish != FinishReason::kNone; }
};

struct LiveRequest {
  // `end_tokens`: the model's own end-of-sequence tokens.
  LiveRequest(Request request, const tokenizer::Tokenizer* tokenizer, const std::vector<int64_t>& end_tokens,
              int64_t max_context);

  // Takes a drawn token; sets out().finish where the sample ends with it.
  void accept(LiveSample& sample, int64_t token, float log_prob, int64_t weight_version);
  void end(LiveSample& sample, FinishReason reason, std::string why = "");
  // What is new since the last call, with settled text.
  Output take();
  bool finished() const { return unfinished == 0; }

  Request request;
  Output output;
  std::vector<std::unique_ptr<LiveSample>> samples;
  Clock::time_point submitted = Clock::now();
  int64_t unfinished = 0;
  bool changed = false;  // since the last delivery

 private:
  const tokenizer::Tokenizer* tokenizer_;
  std::vector<int64_t> stop_ids_;
};

inline Sample& LiveSample::out() const { return request->output.samples[index]; }

}  // namespace tritonforge::engine
