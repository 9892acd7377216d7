#include "model/score.h"

#include <istream>
#include <ostream>

#include "base/json.h"
#include "kernels/device.h"
#include "model/log_probs.h"
#include "model/weights.h"

namespace tritonforge::model {
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

void score_batch(const Model& model, const std::vector<std::vector<int64_t>>& batch, bool logits_last,
                 std::ostream& out) {
  std::vector<int64_t> ids, positions, bounds{0}, targets, target_rows, last_rows;
  for (const auto& sequence : batch) {
    for (size_t i = 0; i < sequence.size(); ++i) {
      positions.push_back(static_cast<int64_t>(i));
      if (i + 1 == sequence.size()) break;
      target_rows.push_back(bounds.back() + static_cast<int64_t>(i));
      targets.push_back(sequence[i + 1]);
    }
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    bounds.push_back(static_cast<int64_t>(ids.size()));
    last_rows.push_back(bounds.back() - 1);
  }
  const auto on_device = [&](const std::vector<int64_t>& values) {
    return at::tensor(values, at::kLong).to(model.device());
  };
  const at::Tensor hidden = model.forward(on_device(ids), on_device(positions), packed_attention(bounds));
  const at::Tensor log_probs =
      target_log_probs(model, hidden.index_select(0, on_device(target_rows)), on_device(targets)).cpu();
  const float* next = log_probs.const_data_ptr<float>();
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t count = batch[i].size() - 1;
    Json line = {{"log_probs", std::vector<double>(next, next + count)}};
    next += count;
    if (logits_last) {
      const at::Tensor logits = model.logits(hidden.narrow(0, last_rows[i], 1)).cpu().contiguous();
      const float* values = logits.const_data_ptr<float>();
      line["logits_last"] = std::vector<double>(values, values + logits.numel());
    }
    out << line.dump() << '\n';
  }
  out.flush();
}

}  // namespace

void score_lines(const ScoreOptions& options, std::istream& in, std::ostream& out) {
  const at::Device device = kernels::open_device(options.device);
  const Model model = load_model(options.model, kernels::parse_dtype(options.dtype, device), device);
  const at::NoGradGuard no_grad;
  std::vector<std::vector<int64_t>> batch;
  size_t tokens = 0;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto ids = ids_of(line, number, model.config().vocab_size);
    if (!batch.empty() && tokens + ids.size() > kTokensPerBatch) {
      score_batch(model, batch, options.logits_last, out);
      batch.clear();
      tokens = 0;
    }
    tokens += ids.size();
    batch.push_back(std::move(ids));
  }
  if (!batch.empty()) score_batch(model, batch, options.logits_last, out);
}

void convert_model(const std::string& model, const std::string& dtype, const std::string& output) {
  save_model(load_model(model, kernels::parse_dtype(dtype, at::kCPU), at::kCPU), output);
}

}  // namespace tritonforge::model
