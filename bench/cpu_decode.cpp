// libs: tf_engine
// Speed of the engine on the CPU: tokens/s of whole steps (forward, sampling, bookkeeping).
//   cpu_decode MODEL|tiny DTYPE BATCH TOKENS [THREADS [PROMPT]]     one JSON line
// All BATCH prompts of PROMPT (64) tokens come at once, each is answered with TOKENS draws at temperature 1.
// tokens_per_s: of answers over all; prompt_per_s: until every first token; decode_per_s: from there on.
// `tiny` is a random Qwen3-shaped model of about 5 M parameters. Peers and ratios: bench/cpu_decode_peer.py
// (transformers), bench/gguf_decode_peer.py (llama.cpp).
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "engine/engine.h"
#include "kernels/device.h"
#include "model/model.h"
#include "model/weights.h"

using namespace tritonforge;

namespace {

std::unique_ptr<model::Model> tiny(at::ScalarType dtype) {
  model::ModelConfig config;
  config.family = model::Family::kQwen3;
  config.hidden_size = 256;
  config.intermediate_size = 768;
  config.num_layers = 5;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.vocab_size = 2048;
  config.max_position = 4096;
  config.tie_embeddings = true;
  auto model = std::make_unique<model::Model>(config, dtype, at::kCPU);
  model->init_random(1);
  return model;
}

int run(const std::string& path, const std::string& dtype_name, int64_t batch, int64_t tokens, int64_t threads,
        int64_t prompt) {
  std::unique_ptr<model::Model> model;
  if (dtype_name == "as_stored") {
    model = std::make_unique<model::Model>(model::load_stored_model(path));
  } else {
    const at::ScalarType dtype = kernels::parse_dtype(dtype_name, at::kCPU);
    model = path == "tiny" ? tiny(dtype) : std::make_unique<model::Model>(model::load_model(path, dtype, at::kCPU));
  }
  const int64_t parameters = model->config().parameter_count();
  engine::EngineOptions options;
  options.model = path;
  options.threads = threads;
  options.max_running = batch;
  options.max_context = prompt + tokens + 1;
  options.kv_cache_tokens = batch * (prompt + tokens + 32);
  engine::Engine engine(options, std::move(model), nullptr);
  std::mutex mutex;
  std::condition_variable changed;
  int64_t done = 0;
  double first = 0;
  engine.pause();
  const auto submit = [&](int64_t count, int64_t length) {
    for (int64_t i = 0; i < count; ++i) {
      engine::Request request;
      for (int64_t t = 0; t < prompt; ++t) request.prompt_ids.push_back(100 + (i * 31 + t * 7) % 1000);
      request.sampling.max_new_tokens = length;
      request.sampling.ignore_eos = true;
      request.sampling.seed = static_cast<uint64_t>(i);
      request.on_output = [&](engine::Output output) {
        std::lock_guard lock(mutex);
        ++done;
        first = std::max(first, output.first_token_s);
        changed.notify_all();
      };
      engine.submit(std::move(request)).value();
    }
  };
  const auto wait = [&](int64_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done == count; });
  };
  submit(batch, 3);  // warm-up
  engine.resume();
  wait(batch);
  engine.pause();
  done = 0;
  first = 0;
  submit(batch, tokens);
  const auto start = Clock::now();
  engine.resume();
  wait(batch);
  const double seconds = seconds_since(start);
  fmt::print(
      "{{\"model\": \"{}\", \"dtype\": \"{}\", \"parameters\": {}, \"batch\": {}, \"tokens\": {}, \"seconds\": {:.4f}, "
      "\"tokens_per_s\": {:.2f}, \"prompt_per_s\": {:.2f}, \"decode_per_s\": {:.2f}}}\n",
      path, dtype_name, parameters, batch, batch * tokens, seconds, static_cast<double>(batch * tokens) / seconds,
      static_cast<double>(batch * prompt) / first, static_cast<double>(batch * (tokens - 1)) / (seconds - first));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: cpu_decode MODEL|tiny float32|bfloat16|as_stored BATCH TOKENS [THREADS [PROMPT]]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], std::stoll(argv[3]), std::stoll(argv[4]), argc > 5 ? std::stoll(argv[5]) : 0,
               argc > 6 ? std::stoll(argv[6]) : 64);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cpu_decode: {}\n", error.what());
    return 1;
  }
}
