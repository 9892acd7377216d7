#include "engine/logit_work.h"

#include <cmath>

namespace tritonforge::engine {
namespace {

at::Tensor on_device(const std::vector<float>& values, const at::Tensor& like) {
  return at::tensor(values, at::kFloat).to(like.device());
}
at::Tensor on_device(std::span<const int64_t> ids, const at::Tensor& like) {
  return at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()), at::kLong).to(like.device());
}

// Values of one row by token; what is impossible (-infinity) is no answer to "the most likely".
template <typename LogProbOf>
TokenLogProbs most_likely(const at::Tensor& row, int64_t count, const LogProbOf& log_prob_of) {
  TokenLogProbs found;
  if (count == 0) return found;
  auto [values, tokens] = row.topk(std::min(count, row.size(0)));
  values = values.cpu();
  tokens = tokens.cpu();
  for (int64_t i = 0; i < values.size(0); ++i) {
    const float value = values.const_data_ptr<float>()[i];
    if (std::isfinite(value)) found.push_back({tokens.const_data_ptr<int64_t>()[i], log_prob_of(value)});
  }
  return found;
}

template <typename LogProbOf>
TokenLogProbs of_ids(const at::Tensor& row, std::span<const int64_t> ids, const LogProbOf& log_prob_of) {
  TokenLogProbs found;
  if (ids.empty()) return found;
  const at::Tensor values = row.index_select(0, on_device(ids, row)).cpu();
  for (size_t i = 0; i < ids.size(); ++i) found.push_back({ids[i], log_prob_of(values.const_data_ptr<float>()[i])});
  return found;
}

}  // namespace

void edit_logits(const at::Tensor& logits, const LogitWork& work) {
  for (const LogitWork::Draw& draw : work.draws) {
    if (draw.edits.empty()) continue;
    std::vector<int64_t> tokens;
    std::vector<float> repetitions, shifts;
    for (const LogitEdit& edit : draw.edits) {
      tokens.push_back(edit.token);
      repetitions.push_back(edit.repetition);
      shifts.push_back(edit.shift);
    }
    at::Tensor row = logits.select(0, draw.row);
    const at::Tensor at_tokens = on_device(tokens, row), repetition = on_device(repetitions, row);
    const at::Tensor before = row.index_select(0, at_tokens);
    const at::Tensor scaled = at::where(before > 0, before / repetition, before * repetition);
    row.index_copy_(0, at_tokens, scaled + on_device(shifts, row));
  }
}

void tell_draws(const at::Tensor& logits, const LogitWork& work, std::span<const kernels::SampleRow> rows,
                std::span<const kernels::Sampled> drawn, LogitAnswers& answers) {
  for (const LogitWork::Draw& draw : work.draws) {
    TokenScores& scores = answers.draws.emplace_back();
    const kernels::Sampled& one = drawn[static_cast<size_t>(draw.row)];
    scores.log_prob = one.log_prob;
    if (one.token < 0 || (draw.top == 0 && draw.ids.empty())) continue;
    // By their distance from the drawn token's logit: that token's own value comes out to the last bit.
    const at::Tensor row = logits.select(0, draw.row);
    const double own = row[one.token].item<float>();
    const double factor = kernels::inverse_temperature(rows[static_cast<size_t>(draw.row)].temperature);
    const auto log_prob_of = [&](float logit) { return static_cast<float>((logit - own) * factor + one.log_prob); };
    scores.top = most_likely(row, draw.top, log_prob_of);
    scores.ids = of_ids(row, draw.ids, log_prob_of);
  }
}

void tell_prompt(const at::Tensor& logits, const LogitWork::Prompt& prompt, int64_t first_target,
                 std::vector<TokenScores>& scores) {
  const auto itself = [](float log_prob) { return log_prob; };
  const at::Tensor log_probs = at::log_softmax(logits, 1);
  const auto targets = prompt.targets.subspan(static_cast<size_t>(first_target), static_cast<size_t>(logits.size(0)));
  const at::Tensor own = log_probs.gather(1, on_device(targets, logits).unsqueeze(1)).cpu();
  for (int64_t i = 0; i < logits.size(0); ++i) {
    const at::Tensor row = log_probs.select(0, i);
    scores.push_back(
        {own.const_data_ptr<float>()[i], most_likely(row, prompt.top, itself), of_ids(row, prompt.ids, itself)});
  }
}

}  // namespace tritonforge::engine
