// The steps of GpuRunner whose logits are read or edited beside the draws.
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "engine/gpu_runner.h"
#include "kernels/device.h"

namespace tritonforge::engine {

using gpu::Bf16;
using gpu::check_cuda;

void GpuRunner::ask(const Plan& plan, const LogitWork& work) {
  asked_.work = &work;
  asked_.answers = {};
  for (const LogitWork::Prompt& prompt : work.prompts) {
    asked_.prompts.push_back(row_of_token(plan, batch_, prompt.first));
    met_later_ += static_cast<uint32_t>(2 * pieces_of(prompt));  // also where another rank gives up half way
  }
}

int64_t GpuRunner::scored_rows() const { return std::min(kScoredRows, most_draws_); }

int64_t GpuRunner::pieces_of(const LogitWork::Prompt& prompt) const {
  return (std::ssize(prompt.targets) + scored_rows() - 1) / scored_rows();
}

// The first rows of the logits' buffer, where they lie.
at::Tensor GpuRunner::logits(int64_t rows) const {
  return at::from_blob(at<void>(buffers_.logits), {rows, vocab_},
                       at::TensorOptions().dtype(at::kFloat).device(model_.device()));
}

// ATen works on a stream of its own: each waits for the other.
void GpuRunner::edit_and_draw() {
  check_cuda(api_.stream_synchronize(stream_));
  edit_logits(logits(batch_.rows), *asked_.work);
  kernels::synchronize(model_.device());
  queue_samples();
}

// Piece by piece, where the draws' logits will be: those of a whole step's prompts would be larger than all else.
void GpuRunner::score_prompts() {
  const int64_t most = scored_rows();
  uint32_t later = 0;
  for (size_t i = 0; i < asked_.prompts.size(); ++i) {
    const LogitWork::Prompt& prompt = asked_.work->prompts[i];
    auto& scores = asked_.answers.prompts.emplace_back();
    const int64_t count = std::ssize(prompt.targets);
    for (int64_t done = 0; done < count; done += most) {
      const int64_t rows = std::min(most, count - done);
      const Bf16* hidden = at(buffers_.normed) + (asked_.prompts[i] + done) * config_.hidden_size;
      project_logits(hidden, rows, later++);
      if (ranks_ != nullptr) {  // nobody's next piece is written before all have read this one
        const gpu::RankMeeting all = meeting(2 * config_.num_layers, later++);
        check_cuda(api_.meet_ranks(&all, stream_));
      }
      check_cuda(api_.stream_synchronize(stream_));
      tell_prompt(logits(rows), prompt, done, scores);
    }
  }
}

}  // namespace tritonforge::engine
