#pragma once
// What an engine is started with. Free of libtorch: a recipe holds it.
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/options.h"

namespace tritonforge::engine {

// What new weights do to requests under way: nothing (they go on, each token marked with its version), wait for their
// end while what comes meanwhile is held back, or abort them.
enum class UpdateMode { kInFlight, kWait, kAbort };
constexpr std::array<std::string_view, 3> names_of(UpdateMode) { return {"in_flight", "wait", "abort"}; }

// What a pause does to requests under way, in SGLang's words: they wait where they are, give back their blocks and are
// computed again when they go on, or end.
enum class PauseMode { kInPlace, kRetract, kAbort };
constexpr std::array<std::string_view, 3> names_of(PauseMode) { return {"in_place", "retract", "abort"}; }

// What the KV cache holds keys and values in: the model's dtype, or FP8 (kernels/fp8.h).
enum class CacheDtype { kAuto, kFp8 };
constexpr std::array<std::string_view, 2> names_of(CacheDtype) { return {"auto", "fp8_e4m3"}; }

// What the matrices of the layers are kept in: the model's dtype, or FP8 (kernels/fp8_matrix.h).
enum class WeightDtype { kAuto, kFp8 };
constexpr std::array<std::string_view, 2> names_of(WeightDtype) { return {"auto", "fp8_e4m3"}; }

struct EngineOptions {
  std::filesystem::path model;
  std::string device = "cpu", dtype = "auto";
  int64_t max_running = 256, max_queue = 1024, max_step_tokens = 0;
  int64_t kv_cache_tokens = 0, kv_host_tokens = 0, max_context = 0, threads = 0, tp = 1;
  CacheDtype kv_cache_dtype = CacheDtype::kAuto;
  WeightDtype weight_dtype = WeightDtype::kAuto;
  UpdateMode update_mode = UpdateMode::kInFlight;
  bool reuse_prefixes = true;
  bool share_device = false;    // holds base/device_lock.h's lock during each step
  bool pad_batches = false;     // to size classes (batch.h); on for devices other than the CPU
  bool rows_attention = false;  // KvLayout::kRows on the CPU too; for comparison
  bool gpu_kernels = true, cuda_graphs = true, step_ahead = true, tune_gemms = true, shared_prefix = true,
       batch_invariant = false;  // gpu_runner.h
  int64_t draft_tokens = 0;
  double watchdog_s = 300;
  std::string weights_key;  // of the run, for weights that come over TCP; from the environment, so no option
  // Midway between the most that a measured shape saved and still lost time (333 MiB) and the next one measured
  // (444 MiB), from which on all gained: docs/performance.md.
  int64_t shared_prefix_mib = 388;

  template <typename V>
  void describe(V& v) {
    v("model", model, by_run(), required(),
      "Hugging Face folder (config.json, tokenizer.json, safetensors) or GGUF file");
    v("device", device, by_run(), "cpu, cuda or cuda:N");
    v("tp", tp, by_run(), in(1, 8), "tensor parallel degree, a power of two: a GPU a rank, from --device on");
    v("dtype", dtype, by_run(), one_of({"auto", "as_stored", "float32", "bfloat16", "float16"}),
      "as_stored computes from a GGUF file's own blocks; auto is that on the CPU, else float32, on a GPU bfloat16");
    v("max_running", max_running, at_least(1), "sequences in one step");
    v("max_queue", max_queue, at_least(0), "sequences that may wait beyond those; more are answered 429");
    v("max_step_tokens", max_step_tokens, at_least(0), "tokens in one step; 0 = 1024 on the CPU, 8192 on a GPU");
    v("kv_cache_tokens", kv_cache_tokens, at_least(0), "tokens in the KV cache; 0 = sized from free memory");
    v("kv_host_tokens", kv_host_tokens, at_least(0),
      "tokens whose keys and values the host keeps for requests that are put back when the KV cache is full (others' "
      "--swap-space, --hicache-size); 0 = they are computed again");
    v("kv_cache_dtype", kv_cache_dtype,
      "auto: the model's; fp8_e4m3 holds about twice the tokens, rounded: log-probs are less exact");
    v("weight_dtype", weight_dtype,
      "auto: dtype; fp8_e4m3 (others' --quantization fp8) keeps the layers' matrices in half the bytes, rounded: "
      "log-probs are less exact");
    v("max_context", max_context, at_least(0), "prompt and answer together; 0 = min(the model's, 32768)");
    v("threads", threads, at_least(0), "CPU threads of a step, shared out among the ranks of tp; 0 = all cores");
    v("update_mode", update_mode, "new weights let requests under way go on, wait for their end, or abort them");
    v("prefix_reuse", reuse_prefixes, "begins a prompt with what the cache has of it");
    v("gpu_kernels", gpu_kernels, "computes with the own kernels on a GPU, not with libtorch's operations");
    v("cuda_graphs", cuda_graphs, "one launch a decode step instead of one a kernel");
    v("step_ahead", step_ahead, "queues a step on the GPU before it reads the tokens of the one before");
    v("tune_gemms", tune_gemms, "times the algorithms of each product; off: the same ones in every process");
    v("shared_prefix", shared_prefix, "reads a prefix that sequences on a GPU share once for all of them in a step");
    v("shared_prefix_mib", shared_prefix_mib, at_least(0),
      "MiB of keys and values a layer that a step must be spared for that to pay");
    v("batch_invariant", batch_invariant,
      "a request's tokens and log-probs are the same bits whatever else is in its batch, on a Hopper GPU, too, where "
      "decodes are slower; a trainer with train.deterministic finds the same log-probs");
    v("draft_tokens", draft_tokens, in(0, 64),
      "tokens drafted ahead for a sequence in one step, where rows of max_running are left; 0 = none");
    v("watchdog_s", watchdog_s, at_least(0),
      "seconds with requests and without the end of a step after which the engine counts as hung: /health is red; 0 = "
      "never");
    v("share_device", share_device, by_run(), "lets an evaluator measure alone on the device between two steps");
  }
  static bool is_degree(int64_t tp) { return tp == 1 || tp == 2 || tp == 4 || tp == 8; }
  void validate() const {
    if (!is_degree(tp)) fail(ErrorKind::kUsage, "'tp' is {}: 1, 2, 4 or 8 ranks", tp);
    if (kv_host_tokens > 0 && !reuse_prefixes)
      fail(ErrorKind::kUsage, "'kv_host_tokens' is {} and 'prefix_reuse' off: what is kept is found as a prefix",
           kv_host_tokens);
    if (batch_invariant && kv_cache_dtype == CacheDtype::kFp8)
      fail(ErrorKind::kUsage,
           "'batch_invariant' is on and 'kv_cache_dtype' fp8_e4m3: prompts and decodes read such a "
           "cache by kernels that round differently; take auto");
  }
};

}  // namespace tritonforge::engine
