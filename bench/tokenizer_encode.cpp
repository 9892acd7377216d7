// libs: tf_tokenizer
// Encode speed: tokenizer_encode TOKENIZER REPEATS THREADS FILE... prints one JSON line. Each file is one call, as
// each prompt is. bench/tokenizer_encode_peer.py runs this and the `tokenizers` library on the same files.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

using namespace tritonforge;

namespace {
// This thread's processor time: other work on the machine does not change it.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) fail(ErrorKind::kUsage, "usage: {} TOKENIZER REPEATS THREADS FILE...", argv[0]);
  const double load_start = cpu_seconds();
  const tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(argv[1]);
  const double load_s = cpu_seconds() - load_start;
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (int i = 4; i < argc; ++i) bytes += texts.emplace_back(read_file(argv[i])).size();
  std::vector<double> speeds;
  size_t tokens = 0;
  for (int repeat = 0; repeat < std::atoi(argv[2]); ++repeat) {
    // Each thread encodes everything; a repeat's figure is the mean of what each does in a second of its own.
    std::vector<size_t> counts(static_cast<size_t>(std::atoi(argv[3])));
    std::vector<double> seconds(counts.size());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < counts.size(); ++i) {
      threads.emplace_back([&, i] {
        const double start = cpu_seconds();
        for (const auto& text : texts) counts[i] += tokenizer.encode(text).size();
        seconds[i] = cpu_seconds() - start;
      });
    }
    threads.clear();
    tokens = counts.at(0);
    speeds.push_back(static_cast<double>(bytes * counts.size()) / 1e6 /
                     std::accumulate(seconds.begin(), seconds.end(), 0.0));
  }
  fmt::print("{{\"bytes\": {}, \"tokens\": {}, \"load_s\": {:.3f}, \"mb_per_s\": [{:.3f}]}}\n", bytes, tokens, load_s,
             fmt::join(speeds, ", "));
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return exit_code(error.kind());
}
