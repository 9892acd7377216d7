// What is done with logits beside drawing: edits before a draw, and log-probabilities of more than the drawn tokens.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "engine/core.h"
#include "engine/logit_rules.h"
#include "model/model.h"
#include "unit/engine/late_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

std::map<int64_t, LogitEdit> edits_of(const LogitRules& rules) {
  std::map<int64_t, LogitEdit> by_token;
  for (const LogitEdit& edit : rules.edits()) EXPECT_TRUE(by_token.emplace(edit.token, edit).second);
  return by_token;
}

TEST(LogitRules, CountWhatWasGenerated) {
  SamplingParams sampling;
  sampling.frequency_penalty = 0.5;
  sampling.presence_penalty = 0.25;
  sampling.repetition_penalty = 1.5;
  sampling.logit_bias = {{7, 3.0}, {9, -100.0}};
  sampling.min_new_tokens = 3;
  LogitRules rules(sampling, std::vector<int64_t>{9, 11});
  auto edits = edits_of(rules);
  ASSERT_EQ(edits.size(), 3u);
  EXPECT_FLOAT_EQ(edits.at(7).shift, 3);
  EXPECT_FLOAT_EQ(edits.at(7).repetition, 1);
  EXPECT_EQ(edits.at(9).shift, kForbidden);
  EXPECT_EQ(edits.at(11).shift, kForbidden);
  for (const int64_t token : {7, 7, 8}) rules.accept(token);
  edits = edits_of(rules);
  EXPECT_FLOAT_EQ(edits.at(11).shift, 0);  // it may come now
  EXPECT_FLOAT_EQ(edits.at(11).repetition, 1);
  EXPECT_FLOAT_EQ(edits.at(7).shift, 3 - 0.5 * 2 - 0.25);
  EXPECT_FLOAT_EQ(edits.at(7).repetition, 1.5);
  EXPECT_FLOAT_EQ(edits.at(8).shift, -0.75);
  EXPECT_FLOAT_EQ(edits.at(9).shift, -100);
  EXPECT_FALSE(LogitRules::needed(SamplingParams{}));
  for (const SamplingParams& any : {SamplingParams{.frequency_penalty = 0.1}, SamplingParams{.presence_penalty = 0.1},
                                    SamplingParams{.repetition_penalty = 1.1}, SamplingParams{.logit_bias = {{7, 1}}},
                                    SamplingParams{.min_new_tokens = 1}})
    EXPECT_TRUE(LogitRules::needed(any));

  SamplingParams one;
  one.min_new_tokens = 1;
  LogitRules first(one, std::vector<int64_t>{4});
  EXPECT_EQ(edits_of(first).at(4).shift, kForbidden);
  first.accept(7);
  EXPECT_EQ(edits_of(first).at(4).shift, 0);
}

TEST(EditLogits, ScaleFirstAndShiftThen) {
  const at::Tensor logits = at::tensor({2.0F, -2.0F, 1.0F, 0.5F, 5.0F, 5.0F, 5.0F, 5.0F}).view({2, 4});
  const std::vector<LogitEdit> edits{{0, 2, -1}, {1, 2, 0.5}, {3, 1, kForbidden}};
  LogitWork work;
  work.draws.push_back({0, edits, 0, {}});
  edit_logits(logits, work);
  const float* row = logits.const_data_ptr<float>();
  EXPECT_FLOAT_EQ(row[0], 0);
  EXPECT_FLOAT_EQ(row[1], -3.5);
  EXPECT_FLOAT_EQ(row[2], 1);
  EXPECT_TRUE(std::isinf(row[3]));
  EXPECT_FLOAT_EQ(row[4], 5);
}

bool equal(const TokenLogProbs& a, const TokenLogProbs& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.token == y.token && std::bit_cast<int32_t>(x.log_prob) == std::bit_cast<int32_t>(y.log_prob);
  });
}
void expect_equal(const TokenScores& a, const TokenScores& b) {
  EXPECT_EQ(a.log_prob, b.log_prob);
  EXPECT_TRUE(equal(a.top, b.top));
  EXPECT_TRUE(equal(a.ids, b.ids));
}

// Rows of one step are edited and told of in one go: bit for bit as one after the other.
TEST(LogitWork, OfAllRowsAtOnceIsThatOfEachAlone) {
  at::manual_seed(3);
  const at::Tensor logits = at::randn({6, 300}) * 4;
  const std::vector<LogitEdit> some{{7, 1.5, -1}, {8, 1, kForbidden}, {299, 1, 3}}, one{{0, 2, 0.5}};
  const std::vector<int64_t> two{4, 8}, three{299, 0, 7};
  LogitWork work;
  work.draws = {{0, some, 0, {}}, {2, one, 5, two}, {3, {}, 2, {}}, {4, some, 0, three}, {5, {}, 9, three}};
  const std::vector<kernels::SampleRow> rows{{.temperature = 1}, {.temperature = 0}, {.temperature = 0.5F},
                                             {.temperature = 0}, {.temperature = 2}, {.temperature = 1}};
  std::vector<kernels::Sampled> drawn;
  for (int32_t row = 0; row < 6; ++row) drawn.push_back({row == 5 ? -1 : 10 + row, -0.5F * static_cast<float>(row)});

  const at::Tensor together = logits.clone(), apart = logits.clone();
  LogitAnswers all;
  edit_logits(together, work);
  tell_draws(together, work, rows, drawn, all);
  ASSERT_EQ(all.draws.size(), work.draws.size());
  for (size_t i = 0; i < work.draws.size(); ++i) {
    LogitWork alone;
    alone.draws = {work.draws[i]};
    LogitAnswers answer;
    edit_logits(apart, alone);
    tell_draws(apart, alone, rows, drawn, answer);
    expect_equal(all.draws[i], answer.draws[0]);
    EXPECT_EQ(std::ssize(all.draws[i].top),
              drawn[static_cast<size_t>(work.draws[i].row)].token < 0 ? 0 : work.draws[i].top);
  }
  EXPECT_TRUE(at::equal(together, apart));

  const std::vector<int64_t> targets{1, 2, 3, 4, 5, 6};
  const LogitWork::Prompt prompt{0, targets, 4, three};
  std::vector<TokenScores> whole, row_by_row;
  tell_prompt(logits, prompt, 0, whole);
  for (int64_t row = 0; row < 6; ++row) tell_prompt(logits.narrow(0, row, 1), prompt, row, row_by_row);
  ASSERT_EQ(whole.size(), 6u);
  for (size_t row = 0; row < 6; ++row) {
    expect_equal(whole[row], row_by_row[row]);
    EXPECT_EQ(whole[row].top.size(), 4u);
  }
}

class LogitsTest : public testing::Test {
 protected:
  const c10::InferenceMode inference_;
  // The outputs of requests that run together, by their order; what a stream's parts join to.
  std::vector<Output> run(std::vector<Request> requests, EngineOptions options = small_options()) {
    at::set_num_threads(1);
    std::vector<Output> outputs(requests.size());
    Core core(options, tiny_model(), nullptr);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].id = std::to_string(i);
      if (!requests[i].sampling.seed) requests[i].sampling.seed = i;
      requests[i].on_output = [&outputs, i](Output part) { outputs[i].append(std::move(part)); };
      auto arrival = core.arrival(std::move(requests[i]));
      if (!arrival) throw arrival.error();
      core.admit(std::move(*arrival));
    }
    while (core.has_work()) core.step();
    preemptions = core.stats().preemptions;
    EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
    return outputs;
  }
  static Request request_of(int64_t prompt, int64_t tokens, int64_t salt = 1) {
    Request request;
    request.prompt_ids = prompt_of(prompt, salt);
    request.sampling.max_new_tokens = tokens;
    return request;
  }
  // The logits of every position, computed at once.
  static at::Tensor logits_of(const std::vector<int64_t>& ids) {
    const auto model = tiny_model();
    return model->logits(
        model->forward(at::tensor(ids), at::arange(std::ssize(ids)), model::packed_attention({0, std::ssize(ids)})));
  }
  int64_t preemptions = 0;
};

TEST_F(LogitsTest, OfAPromptAreThoseOfOneForwardPass) {
  for (const int64_t step_tokens : {0, 16}) {
    for (const int64_t from : {0, 1, 37}) {
      EngineOptions options = small_options();
      options.max_step_tokens = step_tokens;
      Request first = request_of(90, 3), again = request_of(90, 3);  // the second finds the first's prefix
      for (Request* each : {&first, &again}) {
        each->log_probs = {.top = 4, .ids = {5, 6}, .prompt_from = from};
        each->sampling.n = 2;
        each->stream = true;
      }
      const std::vector<int64_t> ids = first.prompt_ids;
      const at::Tensor expected = at::log_softmax(logits_of(ids), 1);
      for (const Output& output : run({first, again}, options)) {
        const int64_t begin = std::max<int64_t>(from, 1);
        ASSERT_EQ(std::ssize(output.prompt.log_probs), 90 - begin);
        ASSERT_EQ(std::ssize(output.prompt.top), 90 - begin);
        for (int64_t i = begin; i < 90; ++i) {
          const at::Tensor row = expected[i - 1];
          const auto at = static_cast<size_t>(i - begin);
          EXPECT_NEAR(output.prompt.log_probs[at], row[ids[i]].item<float>(), 1e-4);
          EXPECT_NEAR(output.prompt.ids[at][1].log_prob, row[6].item<float>(), 1e-4);
          ASSERT_EQ(output.prompt.top[at].size(), 4u);
          EXPECT_NEAR(output.prompt.top[at][0].log_prob, row.max().item<float>(), 1e-4);
          EXPECT_EQ(output.prompt.top[at][0].token, row.argmax().item<int64_t>());
        }
      }
    }
  }
}

TEST_F(LogitsTest, OfAPromptSurviveBeingPutBack) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < 6; ++i) {
    requests.push_back(request_of(60, 100, i));
    requests.back().log_probs = {.top = 1, .ids = {}, .prompt_from = 10};
    requests.back().sampling.frequency_penalty = 0.5;
  }
  const auto roomy = run(requests);
  EngineOptions scarce = small_options();
  scarce.kv_cache_tokens = 288;
  scarce.max_step_tokens = 32;
  const auto tight = run(requests, scarce);
  EXPECT_GT(preemptions, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(tight[i].prompt.log_probs.size(), 50u);
    for (size_t p = 0; p < 50; ++p) EXPECT_NEAR(tight[i].prompt.log_probs[p], roomy[i].prompt.log_probs[p], 1e-4);
    EXPECT_EQ(tight[i].samples[0].output_ids, roomy[i].samples[0].output_ids);
  }
}

// Token for token: the penalised, biased logits of a direct forward pass, at the request's temperature.
TEST_F(LogitsTest, OfAnAnswerAreOfTheDistributionThatItWasDrawnFrom) {
  for (const double temperature : {0.0, 0.7}) {
    Request request = request_of(20, 40);
    SamplingParams& sampling = request.sampling;
    sampling.temperature = temperature;
    sampling.frequency_penalty = 0.4;
    sampling.presence_penalty = 0.3;
    sampling.repetition_penalty = 1.3;
    sampling.logit_bias = {{3, 5.0}, {4, -100.0}};
    sampling.min_new_tokens = 40;
    sampling.stop_token_ids = {8, 3};
    request.log_probs = {.top = 5, .ids = {3, 4, 8}, .prompt_from = -1};
    const Sample sample = run({request})[0].samples[0];
    ASSERT_EQ(sample.output_ids.size(), 40u);

    std::vector<int64_t> ids = request.prompt_ids;
    ids.insert(ids.end(), sample.output_ids.begin(), sample.output_ids.end());
    const at::Tensor rows = logits_of(ids).to(at::kDouble);
    std::map<int64_t, int> counts;
    for (size_t i = 0; i < 40; ++i) {
      const at::Tensor row = rows[19 + static_cast<int64_t>(i)];
      auto* logits = row.mutable_data_ptr<double>();
      for (const auto& [token, count] : counts) {
        logits[token] = logits[token] > 0 ? logits[token] / 1.3 : logits[token] * 1.3;
        logits[token] -= 0.4 * count + 0.3;
      }
      logits[3] = logits[8] = -INFINITY;
      logits[4] -= 100;
      const at::Tensor log_probs = at::log_softmax(row / (temperature == 0 ? 1.0 : temperature), 0);
      const int64_t token = sample.output_ids[i];
      EXPECT_TRUE(token != 3 && token != 8 && token != 4);
      EXPECT_NEAR(sample.log_probs[i], log_probs[token].item<double>(), 1e-3);
      if (temperature == 0) {
        EXPECT_EQ(token, log_probs.argmax().item<int64_t>());
      }
      ASSERT_EQ(sample.top_log_probs[i].size(), 5u);
      EXPECT_EQ(sample.top_log_probs[i][0].token, log_probs.argmax().item<int64_t>());
      for (const auto& [other, log_prob] : sample.top_log_probs[i]) {
        EXPECT_NEAR(log_prob, log_probs[other].item<double>(), 1e-3);
        if (other == token) {
          EXPECT_EQ(log_prob, sample.log_probs[i]);
        }
      }
      EXPECT_EQ(sample.ids_log_probs[i][0].token, 3);
      EXPECT_TRUE(std::isinf(sample.ids_log_probs[i][0].log_prob));
      EXPECT_NEAR(sample.ids_log_probs[i][1].log_prob, log_probs[4].item<double>(), 1e-2);
      ++counts[token];
    }
  }
}

TEST_F(LogitsTest, ChangeNothingForTheirNeighbours) {
  const Request plain = request_of(30, 30, 2);
  Request penalised = request_of(30, 30, 2);
  penalised.sampling.seed = 0;
  penalised.sampling.presence_penalty = 2;
  Request biased = request_of(30, 30, 2);
  biased.sampling.logit_bias = {{17, 100}};
  const auto alone = run({plain});
  EngineOptions drafting = small_options();
  drafting.draft_tokens = 4;
  for (const EngineOptions& options : {small_options(), drafting}) {
    const auto together = run({plain, penalised, biased}, options);
    EXPECT_EQ(together[0].samples[0].output_ids, alone[0].samples[0].output_ids);
    EXPECT_NE(together[1].samples[0].output_ids, alone[0].samples[0].output_ids);
    EXPECT_EQ(together[2].samples[0].output_ids, std::vector<int64_t>(30, 17));
  }
}

// A runner that runs ahead is waited for while a request needs the tokens before, and runs ahead again after it. They
// come one after another, some while others' steps are in flight.
TEST_F(LogitsTest, AreTheSameWithAStepInFlight) {
  const auto request_of_number = [](int64_t i) {
    Request request = request_of(i < 6 ? 40 : 3 + 5 * i, i % 4 == 0 ? 60 : 5 + i, i);
    request.id = std::to_string(i);
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 3 == 0 ? 0 : 1;
    if (i % 4 == 1) request.sampling.presence_penalty = 1.5;
    if (i % 4 == 2) {
      request.sampling.logit_bias = {{3, 4.0}, {4, -100.0}};
      request.sampling.repetition_penalty = 1.4;
      request.sampling.min_new_tokens = 6;
      request.sampling.stop_token_ids = {3};
    }
    if (i % 4 == 3) request.log_probs = {.top = 3, .ids = {3, 4}, .prompt_from = i};
    return request;
  };
  const auto run_late = [&](bool ahead) {
    constexpr int64_t kRequests = 16, kStepsApart = 9;
    EngineOptions options = small_options();
    options.max_step_tokens = 48;
    options.step_ahead = ahead;
    Core core(options, tiny_model(), nullptr, nullptr, make_late_runner);
    std::map<std::string, Output> outputs;
    int64_t begun = 0;
    for (int64_t step = 0; begun < kRequests || core.has_work(); ++step) {
      if (begun < kRequests && step >= begun * kStepsApart) {
        Request request = request_of_number(begun++);
        request.on_output = [&outputs](Output part) {
          const std::string id = part.id;
          outputs[id].append(std::move(part));
        };
        core.admit(std::move(core.arrival(std::move(request)).value()));
      }
      core.step();
    }
    EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
    return outputs;
  };
  const auto same = [](const std::vector<TokenLogProbs>& a, const std::vector<TokenLogProbs>& b) {
    return std::ranges::equal(a, b, equal);
  };
  at::set_num_threads(1);
  const auto plain = run_late(false), ahead = run_late(true);
  ASSERT_EQ(plain.size(), 16u);
  ASSERT_EQ(ahead.size(), 16u);
  for (const auto& [id, output] : plain) {
    const Output& other = ahead.at(id);
    const Sample &a = output.samples[0], &b = other.samples[0];
    EXPECT_EQ(a.output_ids, b.output_ids) << id;
    EXPECT_EQ(a.log_probs, b.log_probs) << id;
    EXPECT_EQ(output.prompt.log_probs, other.prompt.log_probs) << id;
    EXPECT_TRUE(same(a.top_log_probs, b.top_log_probs) && same(a.ids_log_probs, b.ids_log_probs)) << id;
    EXPECT_TRUE(same(output.prompt.top, other.prompt.top)) << id;
    if (std::stoll(id) % 4 == 3) {
      EXPECT_EQ(a.top_log_probs.size(), a.output_ids.size()) << id;
      EXPECT_FALSE(output.prompt.top.empty()) << id;
    }
  }
}

}  // namespace
}  // namespace tritonforge::engine
