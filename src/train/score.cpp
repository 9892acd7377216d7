#include "train/score.h"

#include <algorithm>
#include <istream>
#include <iterator>
#include <ostream>

#include "base/json.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "train/packing.h"
#include "train/pass.h"

namespace tritonforge::train {
namespace {

constexpr size_t kTokensPerBatch = 4096;

std::vector<int64_t> ids_of(const std::string& line, int64_t number, int64_t vocab_size) {
  const std::string where = fmt::format("line {}", number);
  const Json json = parse_json(line, where);
  if (!json.is_object())
    fail(ErrorKind::kUsage, "{}: expected an object {{\"ids\": [..]}}, found {}", where, line.substr(0, 40));
  auto ids = require<std::vector<int64_t>>(json, "ids", where);
  if (ids.empty()) fail(ErrorKind::kUsage, "{}: 'ids' is empty", where);
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kUsage, "{}: token id {} is outside the vocabulary of {}", where, id, vocab_size);
  }
  return ids;
}

// Of a pass, every token but the first is a target.
TrainSequence sequence_of(const std::vector<int64_t>& ids) {
  TrainSequence sequence;
  sequence.tokens = ids;
  sequence.loss_mask.assign(ids.size(), 1);
  sequence.loss_mask[0] = 0;
  sequence.old_log_probs.assign(ids.size(), 0);
  sequence.advantages.assign(ids.size(), 0);
  sequence.weight_versions.assign(ids.size(), -1);
  return sequence;
}

// Which no pass gives: by the model's own functions.
std::vector<double> last_logits(const model::Model& model, const std::vector<int64_t>& ids) {
  const at::Tensor tokens = at::tensor(ids, at::kLong).to(model.device()),
                   positions = at::arange(std::ssize(ids), tokens.options());
  const at::Tensor hidden = model.forward(tokens, positions, model::packed_attention({0, std::ssize(ids)}));
  const at::Tensor logits = model.logits(hidden.narrow(0, std::ssize(ids) - 1, 1)).cpu().contiguous();
  const float* values = logits.const_data_ptr<float>();
  return {values, values + logits.numel()};
}

void score_batch(const model::Model& model, Pass& pass, const std::vector<std::vector<int64_t>>& batch,
                 bool logits_last, std::ostream& out) {
  std::vector<TrainSequence> sequences;
  std::vector<size_t> indices;
  std::ranges::transform(batch, std::back_inserter(sequences), sequence_of);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].size() > 1) indices.push_back(i);
  }
  at::Tensor log_probs = at::empty({0});
  if (!indices.empty()) {
    const std::vector<double> weights(batch.size(), 1.0);
    log_probs = pass.forward(make_micro_batch(sequences, indices, weights, {}, model.device()), false).log_probs.cpu();
  }
  const float* next = log_probs.const_data_ptr<float>();
  for (const auto& ids : batch) {
    const size_t count = ids.size() - 1;
    Json line = {{"log_probs", std::vector<double>(next, next + count)}};
    next += count;
    if (logits_last) line["logits_last"] = last_logits(model, ids);
    out << line.dump() << '\n';
  }
  out.flush();
}

}  // namespace

void score_lines(const ScoreOptions& options, std::istream& in, std::ostream& out) {
  const at::Device device = kernels::open_device(options.device);
  const model::Model model = model::load_model(options.model, kernels::parse_dtype(options.dtype, device), device);
  const TrainConfig config;
  const auto pass = make_pass(model, config, nullptr);
  const at::NoGradGuard no_grad;
  std::vector<std::vector<int64_t>> batch;
  size_t tokens = 0;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto ids = ids_of(line, number, model.config().vocab_size);
    if (!batch.empty() && tokens + ids.size() > kTokensPerBatch) {
      score_batch(model, *pass, batch, options.logits_last, out);
      batch.clear();
      tokens = 0;
    }
    tokens += ids.size();
    batch.push_back(std::move(ids));
  }
  if (!batch.empty()) score_batch(model, *pass, batch, options.logits_last, out);
}

}  // namespace tritonforge::train
