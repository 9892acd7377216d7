#pragma once
// Drawing one token from each row of logits, on the CPU. A draw is a function of (seed, position, logits): the noise is
// Philox4x32-10 with key `seed` and a counter made of the position and the token id, so neither the batch nor the
// order of work can change it.
#include <cstdint>

namespace tritonforge::kernels {

struct SampleRow {
  float temperature = 1;  // 0 = greedy: the lowest id of the largest logit
  float top_p = 1, min_p = 0;
  int64_t top_k = -1;
  uint64_t seed = 0, position = 0;
};
struct Sampled {
  int64_t token;   // -1 where the row holds no finite maximum (NaN or infinite logits)
  float log_prob;  // of softmax(logits / temperature) before cuts; temperature 0: of softmax(logits)
};

// What logits are multiplied by before the softmax: 1/T, and 1 for greedy decoding, whose log-probabilities are those
// at temperature 1. One form for who samples and who trains on the samples: their logits are scaled alike to the last
// bit.
inline float inverse_temperature(float temperature) { return temperature > 0 ? 1.0f / temperature : 1.0f; }

// logits [rows, vocab] fp32, row-major. Cuts in this order: top_k most likely (ties: lower id), the fewest of those
// whose share of what top_k left reaches top_p, then those of at least min_p times the largest probability.
void sample_rows(const float* logits, int64_t rows, int64_t vocab, const SampleRow* parameters, Sampled* out);

// The plain twin: sorts everything and computes in double.
Sampled sample_row_reference(const float* logits, int64_t vocab, const SampleRow& parameters);

// Exponential(1) noise of one token, as the vectorised race computes it but in double.
double race_noise(uint64_t seed, uint64_t position, int64_t token);

}  // namespace tritonforge::kernels
