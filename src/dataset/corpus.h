#pragma once
// Own-made text for a tiny base model: PyTorch modules and Triton kernels of the families marked kCorpus (none of which
// a pair teaches or a bench asks for), alone and as question and answer, and plain Python.
#include <cstdint>
#include <string>

namespace tritonforge::dataset {

// Text number `index`; a function of (seed, index).
std::string corpus_text(uint64_t seed, uint64_t index);

}  // namespace tritonforge::dataset
