#include "engine/logit_work.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tritonforge::engine {
namespace {

template <typename T>
at::Tensor on_device(std::span<const T> values, const at::Tensor& like) {
  return at::tensor(at::ArrayRef<T>(values.data(), values.size()), c10::CppTypeToScalarType<T>::value)
      .to(like.device());
}

// Values of a matrix by row and column, in the order of the adding: one transfer however many there are.
class Picked {
 public:
  explicit Picked(const at::Tensor& matrix) : matrix_(matrix), columns_(matrix.size(1)) {}
  void add(int64_t row, int64_t column) { places_.push_back(row * columns_ + column); }
  // [added] fp32, on the host.
  at::Tensor values() const {
    if (places_.empty()) return at::empty({0}, at::kFloat);
    return matrix_.view(-1).index_select(0, on_device<int64_t>(places_, matrix_)).cpu();
  }

 private:
  const at::Tensor& matrix_;
  const int64_t columns_;
  std::vector<int64_t> places_;
};

// The largest of each of these rows, [rows, count] on the host; nothing is computed where count is 0.
struct Largest {
  at::Tensor values, tokens;
  Largest(const at::Tensor& matrix, std::span<const int64_t> rows, int64_t count) {
    if (count == 0) return;
    const bool all = std::ssize(rows) == matrix.size(0);
    const at::Tensor chosen = all ? matrix : matrix.index_select(0, on_device(rows, matrix));
    std::tie(values, tokens) = chosen.topk(std::min(count, matrix.size(1)));
    values = values.cpu();
    tokens = tokens.cpu();
  }
  // What is impossible (-infinity) is no answer to "the most likely".
  template <typename LogProbOf>
  TokenLogProbs of_row(int64_t row, int64_t count, const LogProbOf& log_prob_of) const {
    TokenLogProbs found;
    for (int64_t i = 0; values.defined() && i < std::min(count, values.size(1)); ++i) {
      const int64_t place = row * values.size(1) + i;
      const float value = values.const_data_ptr<float>()[place];
      if (std::isfinite(value)) found.push_back({tokens.const_data_ptr<int64_t>()[place], log_prob_of(value)});
    }
    return found;
  }
};

}  // namespace

void edit_logits(const at::Tensor& logits, const LogitWork& work) {
  std::vector<int64_t> places;
  std::vector<float> repetitions, shifts;
  for (const LogitWork::Draw& draw : work.draws) {
    for (const LogitEdit& edit : draw.edits) {
      places.push_back(draw.row * logits.size(1) + edit.token);
      repetitions.push_back(edit.repetition);
      shifts.push_back(edit.shift);
    }
  }
  if (places.empty()) return;
  at::Tensor flat = logits.view(-1);
  const at::Tensor at_places = on_device<int64_t>(places, flat), repetition = on_device<float>(repetitions, flat);
  const at::Tensor before = flat.index_select(0, at_places);
  const at::Tensor scaled = at::where(before > 0, before / repetition, before * repetition);
  flat.index_copy_(0, at_places, scaled + on_device<float>(shifts, flat));
}

void tell_draws(const at::Tensor& logits, const LogitWork& work, std::span<const kernels::SampleRow> rows,
                std::span<const kernels::Sampled> drawn, LogitAnswers& answers) {
  // What is wanted of the rows that were drawn from, all of them at once.
  std::vector<int64_t> top_rows;
  int64_t most = 0;
  Picked picked(logits);
  const auto tells = [&](const LogitWork::Draw& draw) {
    return drawn[static_cast<size_t>(draw.row)].token >= 0 && (draw.top > 0 || !draw.ids.empty());
  };
  for (const LogitWork::Draw& draw : work.draws) {
    if (!tells(draw)) continue;
    picked.add(draw.row, drawn[static_cast<size_t>(draw.row)].token);
    for (const int64_t id : draw.ids) picked.add(draw.row, id);
    if (draw.top > 0) top_rows.push_back(draw.row);
    most = std::max(most, draw.top);
  }
  const at::Tensor values = picked.values();
  const float* next = values.const_data_ptr<float>();
  const Largest largest(logits, top_rows, most);

  int64_t top_row = 0;
  for (const LogitWork::Draw& draw : work.draws) {
    TokenScores& scores = answers.draws.emplace_back();
    const kernels::Sampled& one = drawn[static_cast<size_t>(draw.row)];
    scores.log_prob = one.log_prob;
    if (!tells(draw)) continue;
    // By their distance from the drawn token's logit: that token's own value comes out to the last bit.
    const double own = *next++;
    const double factor = kernels::inverse_temperature(rows[static_cast<size_t>(draw.row)].temperature);
    const auto log_prob_of = [&](float logit) { return static_cast<float>((logit - own) * factor + one.log_prob); };
    if (draw.top > 0) scores.top = largest.of_row(top_row++, draw.top, log_prob_of);
    for (const int64_t id : draw.ids) scores.ids.push_back({id, log_prob_of(*next++)});
  }
}

void tell_prompt(const at::Tensor& logits, const LogitWork::Prompt& prompt, int64_t first_target,
                 std::vector<TokenScores>& scores) {
  const auto itself = [](float log_prob) { return log_prob; };
  const at::Tensor log_probs = at::log_softmax(logits, 1);
  Picked picked(log_probs);
  std::vector<int64_t> all_rows;
  for (int64_t i = 0; i < logits.size(0); ++i) {
    all_rows.push_back(i);
    picked.add(i, prompt.targets[static_cast<size_t>(first_target + i)]);
    for (const int64_t id : prompt.ids) picked.add(i, id);
  }
  const at::Tensor values = picked.values();
  const float* next = values.const_data_ptr<float>();
  const Largest largest(log_probs, all_rows, prompt.top);
  for (int64_t i = 0; i < logits.size(0); ++i) {
    TokenScores& score = scores.emplace_back();
    score.log_prob = *next++;
    score.top = largest.of_row(i, prompt.top, itself);
    for (const int64_t id : prompt.ids) score.ids.push_back({id, *next++});
  }
}

}  // namespace tritonforge::engine
