#include "engine/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/device_lock.h"
#include "base/log.h"
#include "engine/attention_paged.h"
#include "engine/batch.h"
#include "engine/live.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/weights.h"
#include "kernels/device.h"
#include "model/weights.h"

namespace tritonforge::engine {
namespace {

constexpr int64_t kBlockSize = 16;
constexpr int64_t kFailuresBeforeRed = 3;

struct Sizes {
  int64_t max_context, step_tokens, blocks;
};

Sizes size_engine(const EngineOptions& options, const model::ModelConfig& config, at::ScalarType dtype,
                  at::Device device) {
  Sizes sizes{};
  sizes.max_context = options.max_context > 0 ? options.max_context : std::min<int64_t>(config.max_position, 32768);
  if (sizes.max_context > config.max_position) {
    fail(ErrorKind::kUsage, "--max-context {} is beyond the model's {} positions", options.max_context,
         config.max_position);
  }
  sizes.step_tokens = std::max(options.max_step_tokens > 0 ? options.max_step_tokens
                               : device.is_cpu()           ? 1024
                                                           : 8192,
                               options.max_running);
  const int64_t per_token = KvCache::bytes_per_token(config, dtype);
  int64_t tokens = options.kv_cache_tokens;
  if (tokens == 0) {
    // Of what is free: a quarter of the machine's memory, or six tenths of an accelerator's.
    const double share = device.is_cpu() ? 0.25 : 0.6;
    const auto affordable = static_cast<int64_t>(share * static_cast<double>(kernels::free_memory(device)) /
                                                 static_cast<double>(per_token));
    tokens = std::min(affordable, options.max_running * sizes.max_context);
  }
  const int64_t blocks = (tokens + kBlockSize - 1) / kBlockSize;
  if (blocks * kBlockSize < sizes.max_context) {
    if (options.kv_cache_tokens > 0 && options.max_context > 0) {
      fail(ErrorKind::kUsage, "--kv-cache-tokens {} cannot hold one sequence of --max-context {}",
           options.kv_cache_tokens, options.max_context);
    }
    if (options.max_context > 0 || blocks < 1) {
      fail(ErrorKind::kMachine, "the free memory of {} holds a KV cache of {} tokens, less than one sequence of {}",
           device.str(), tokens, sizes.max_context);
    }
    sizes.max_context = blocks * kBlockSize;
  }
  sizes.blocks = blocks + 1;  // and the one that nobody owns
  return sizes;
}

}  // namespace

struct Engine::Impl {
  Impl(EngineOptions options, std::unique_ptr<model::Model> model,
       std::shared_ptr<const tokenizer::Tokenizer> tokenizer);
  ~Impl();

  void run();
  void step();
  void deliver(LiveRequest& request);
  void abort_request(LiveRequest& request, const std::string& why);
  void abort_everything(const std::string& why);
  void step_failed(const std::string& why);
  void expire();
  void publish_stats();
  // Runs `command` on the engine's thread, between steps.
  void post(std::function<void()> command);
  void post_and_wait(std::function<void()> command);
  bool has_commands() const { return !commands.empty(); }
  bool steps() const { return !paused && cache && !scheduler.empty(); }
  void make_cache();

  EngineOptions options;
  std::unique_ptr<model::Model> model;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  at::Device device;
  Sizes sizes;
  EngineInfo info;

  // The engine thread's own.
  BlockPool pool;
  std::optional<KvCache> cache;  // none while its memory is released
  Scheduler scheduler;
  BatchBuffers batches;
  Sampler sampler;
  std::optional<DeviceLock> device_lock;
  std::unordered_map<std::string, std::unique_ptr<LiveRequest>> live;
  std::vector<kernels::SampleRow> rows;
  std::vector<LiveRequest*> touched;
  int64_t weight_version = 0;
  bool paused = false;
  EngineStats counters;

  std::atomic<int64_t> unfinished_samples{0};  // submitted and not yet finished
  std::atomic<uint64_t> next_id{1};
  std::mutex update_mutex;  // one weight update at a time

  mutable std::mutex mutex;  // commands, stopping, stats
  std::condition_variable wake;
  std::vector<std::function<void()>> commands;
  bool stopping = false;
  EngineStats stats;
  std::thread thread;
};

Engine::Impl::Impl(EngineOptions from, std::unique_ptr<model::Model> the_model,
                   std::shared_ptr<const tokenizer::Tokenizer> the_tokenizer)
    : options(std::move(from)),
      model(std::move(the_model)),
      tokenizer(std::move(the_tokenizer)),
      device(model->device()),
      sizes(size_engine(options, model->config(), model->dtype(), device)),
      pool(sizes.blocks, kBlockSize, options.reuse_prefixes),
      scheduler({options.max_running, sizes.step_tokens}, pool),
      batches({.max_tokens = sizes.step_tokens,
               .max_sequences = options.max_running,
               .max_context = sizes.max_context,
               .block_size = kBlockSize,
               .pad = options.pad_batches || !device.is_cpu(),
               .list_context = device.is_cuda()},
              device),
      sampler(device) {
  make_cache();
  const model::ModelConfig& config = model->config();
  info = {.model_path = options.model.string(),
          .device = device.str(),
          .dtype = model::dtype_name(model->dtype()),
          .family = config.family == model::Family::kQwen2 ? "qwen2" : "qwen3",
          .vocab_size = config.vocab_size,
          .max_context = sizes.max_context,
          .kv_cache_tokens = pool.capacity() * kBlockSize,
          .parameters = config.parameter_count(),
          .eos_token_ids = config.eos_token_ids,
          .has_tokenizer = tokenizer != nullptr};
  if (tokenizer) {
    const auto end = tokenizer->eos_id();
    if (end && std::find(info.eos_token_ids.begin(), info.eos_token_ids.end(), *end) == info.eos_token_ids.end())
      info.eos_token_ids.push_back(*end);
  }
  if (options.share_device) device_lock.emplace(kernels::device_identity(device));
  publish_stats();
  thread = std::thread([this] { run(); });
}

void Engine::Impl::make_cache() {
  cache.emplace(model->config(), sizes.blocks, kBlockSize, model->dtype(), device,
                device.is_cpu() && !options.rows_attention ? KvLayout::kVector : KvLayout::kRows);
}

Engine::Impl::~Impl() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  thread.join();
}

void Engine::Impl::run() {
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  const at::InferenceMode inference;
  std::vector<std::function<void()>> batch;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      const auto ready = [this] { return stopping || has_commands() || steps(); };
      if (live.empty()) wake.wait(lock, ready);
      else if (!ready()) {  // held up with requests inside: wake for the first of their deadlines
        auto first = Clock::time_point::max();
        for (const auto& [id, request] : live) first = std::min(first, request->request.deadline.at());
        wake.wait_until(lock, first, ready);
      }
      if (stopping) break;
      batch.swap(commands);
    }
    for (auto& command : batch) command();
    batch.clear();
    expire();
    if (steps()) {
      try {
        step();
      } catch (const std::exception& error) {
        step_failed(error.what());
      }
    }
    publish_stats();
  }
  for (auto& command : batch) command();
  abort_everything("the engine is shutting down");
  std::vector<std::function<void()>> last;
  {
    std::lock_guard lock(mutex);
    last.swap(commands);
  }
  for (auto& command : last) command();
  abort_everything("the engine is shutting down");
  publish_stats();
}

// One step: plan -> tensors -> forward -> logits of the last tokens -> draws -> the requests.
void Engine::Impl::step() {
  const auto start = Clock::now();
  std::optional<DeviceLock::Hold> hold;
  if (device_lock) hold.emplace(device_lock->shared());

  const Plan& plan = scheduler.schedule();
  const Batch& batch = batches.fill(plan);
  const at::Tensor hidden = model->forward(batch.ids, batch.positions, cache->attention(batch));
  rows.clear();
  for (const Chunk& chunk : plan.chunks) {
    if (!chunk.samples) continue;
    auto& sample = static_cast<LiveSample&>(*chunk.sequence);
    sample.row.position = sample.tokens.size();
    rows.push_back(sample.row);
  }
  static const std::vector<kernels::Sampled> none;
  const auto& drawn = rows.empty() ? none
                                   : sampler.sample(model->logits(hidden.index_select(0, batch.sample_rows)), rows);
  if (hold) {
    kernels::synchronize(device);
    hold.reset();
  }
  scheduler.commit(plan);

  size_t draw = 0;
  touched.clear();
  for (const Chunk& chunk : plan.chunks) {
    if (!chunk.samples) continue;
    auto& sample = static_cast<LiveSample&>(*chunk.sequence);
    LiveRequest& request = *sample.request;
    if (!request.changed) touched.push_back(&request);
    const kernels::Sampled& token = drawn[draw++];
    if (token.token < 0) request.end(sample, FinishReason::kAbort, "the logits are not finite");
    else request.accept(sample, token.token, token.log_prob, weight_version);
    if (sample.finished()) {
      scheduler.remove(&sample);
      --unfinished_samples;
    }
  }
  counters.generated_tokens += static_cast<int64_t>(draw);
  counters.prompt_tokens += plan.tokens - static_cast<int64_t>(draw);
  counters.preemptions += plan.preempted;
  ++counters.steps;
  counters.consecutive_failures = 0;
  counters.last_failure.clear();
  counters.step_seconds += seconds_since(start);
  for (LiveRequest* request : touched) deliver(*request);
}

void Engine::Impl::deliver(LiveRequest& request) {
  if (!request.changed) return;
  request.changed = false;
  const bool over = request.finished();
  if (over) {
    const auto& samples = request.output.samples;
    const bool aborted = std::any_of(samples.begin(), samples.end(),
                                     [](const Sample& s) { return s.finish == FinishReason::kAbort; });
    ++(aborted ? counters.aborted_requests : counters.finished_requests);
    counters.cached_tokens += std::max<int64_t>(0, request.samples[0]->cached_tokens);
    publish_stats();  // before the answer: who has it finds its blocks free
  }
  if (request.request.on_output && (over || request.request.stream)) {
    Output output = request.snapshot();
    output.weight_version = weight_version;
    request.request.on_output(std::move(output));
  }
  if (!over) return;
  live.erase(std::string(request.request.id));
}

void Engine::Impl::abort_request(LiveRequest& request, const std::string& why) {
  for (const auto& sample : request.samples) {
    if (sample->finished()) continue;
    request.end(*sample, FinishReason::kAbort, why);
    scheduler.remove(sample.get());
    --unfinished_samples;
  }
  deliver(request);
}

void Engine::Impl::abort_everything(const std::string& why) {
  while (!live.empty()) abort_request(*live.begin()->second, why);
}

// What the failed step left in the cache is not known: nothing of it is used again.
void Engine::Impl::step_failed(const std::string& why) {
  std::string line = why.substr(0, why.find('\n'));
  log::error("engine step failed, {} requests aborted: {}", live.size(), line);
  ++counters.failed_steps;
  ++counters.consecutive_failures;
  counters.last_failure = line;
  abort_everything("a step of the engine failed: " + line);
  scheduler.weights_changed();
  if (device.is_cpu()) return;
  try {
    kernels::synchronize(device);
  } catch (const std::exception&) {
    // A CUDA context that failed stays failed. The process ends, so that its supervisor starts one with a new context.
    log::error("the GPU's context is lost with it: the engine ends and can be started again");
    std::_Exit(1);
  }
}

void Engine::Impl::expire() {
  const auto now = Clock::now();
  std::vector<LiveRequest*> late;
  for (const auto& [id, request] : live) {
    if (request->request.deadline.at() <= now) late.push_back(request.get());
  }
  for (LiveRequest* request : late) abort_request(*request, "the request's deadline passed");
}

void Engine::Impl::publish_stats() {
  counters.running = scheduler.running();
  counters.waiting = scheduler.waiting();
  counters.weight_version = weight_version;
  counters.kv_tokens_free = pool.available() * kBlockSize;
  counters.kv_tokens_total = pool.capacity() * kBlockSize;
  counters.prefix_blocks = pool.cached();
  counters.paused = paused;
  counters.memory_released = !cache;
  std::lock_guard lock(mutex);
  stats = counters;
}

void Engine::Impl::post(std::function<void()> command) {
  {
    std::lock_guard lock(mutex);
    commands.push_back(std::move(command));
  }
  wake.notify_all();
}

void Engine::Impl::post_and_wait(std::function<void()> command) {
  auto done = std::make_shared<std::promise<void>>();
  auto future = done->get_future();
  post([command = std::move(command), done] {
    try {
      command();
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  });
  future.get();
}

Engine::Engine(EngineOptions options) {
  check_options(options);
  const at::Device device = kernels::open_device(options.device);
  const at::ScalarType dtype = kernels::parse_dtype(options.dtype, device);
  auto tokenizer = std::make_shared<const tokenizer::Tokenizer>(tokenizer::Tokenizer::load(options.model));
  auto model = std::make_unique<model::Model>(model::load_model(options.model, dtype, device));
  impl_ = std::make_unique<Impl>(std::move(options), std::move(model), std::move(tokenizer));
}

Engine::Engine(EngineOptions options, std::unique_ptr<model::Model> model,
               std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  check_options(options);
  impl_ = std::make_unique<Impl>(std::move(options), std::move(model), std::move(tokenizer));
}

Engine::~Engine() = default;

const EngineInfo& Engine::info() const { return impl_->info; }
const tokenizer::Tokenizer* Engine::tokenizer() const { return impl_->tokenizer.get(); }

Result<std::string> Engine::submit(Request request) {
  Impl& impl = *impl_;
  const auto& ids = request.prompt_ids;
  const int64_t vocab = impl.info.vocab_size;
  try {
    request.sampling.validate(vocab);
    if (ids.empty()) fail(ErrorKind::kUsage, "the prompt is empty");
    for (const int64_t id : ids) {
      if (id < 0 || id >= vocab)
        fail(ErrorKind::kUsage, "the prompt holds token {}, outside the vocabulary of {}", id, vocab);
    }
    if (static_cast<int64_t>(ids.size()) >= impl.info.max_context) {
      fail(ErrorKind::kUsage, "the prompt has {} tokens; the context of {} leaves no room for an answer", ids.size(),
           impl.info.max_context);
    }
    if (!impl.tokenizer && !request.sampling.stop.empty())
      fail(ErrorKind::kUsage, "sampling_params.stop needs a tokenizer");
  } catch (const Error& error) {
    return error;
  }
  const int64_t limit = impl.options.max_running + impl.options.max_queue, n = request.sampling.n;
  int64_t held = impl.unfinished_samples.load();
  do {
    // A request of more samples than the whole queue holds is taken when nothing else is there.
    if (held + n > limit && held > 0) {
      return Error(ErrorKind::kUnavailable,
                   fmt::format("the engine's queue is full: {} sequences run or wait, the limit is {}", held, limit));
    }
  } while (!impl.unfinished_samples.compare_exchange_weak(held, held + n));
  if (request.id.empty()) request.id = fmt::format("req-{}", impl.next_id++);
  std::string id = request.id;
  auto live = std::make_shared<std::unique_ptr<LiveRequest>>(std::make_unique<LiveRequest>(
      std::move(request), impl.tokenizer.get(), impl.info.eos_token_ids, impl.info.max_context));
  impl.post([&impl, live] {
    LiveRequest& added = **live;
    if (!impl.live.try_emplace(added.request.id, nullptr).second) {
      // The id is taken by a request that runs: this one is answered at once and never enters.
      for (const auto& sample : added.samples) {
        added.end(*sample, FinishReason::kAbort, fmt::format("a request with id '{}' is running", added.request.id));
        --impl.unfinished_samples;
      }
      if (added.request.on_output) added.request.on_output(added.snapshot());
      return;
    }
    for (const auto& sample : added.samples) impl.scheduler.add(sample.get());
    impl.live[added.request.id] = std::move(*live);
  });
  return id;
}

void Engine::abort(const std::string& id, const std::string& why) {
  impl_->post([impl = impl_.get(), id, why] {
    const auto found = impl->live.find(id);
    if (found != impl->live.end()) impl->abort_request(*found->second, why);
  });
}

void Engine::abort_all(const std::string& why) {
  impl_->post_and_wait([impl = impl_.get(), why] { impl->abort_everything(why); });
}

void Engine::pause() {
  impl_->post_and_wait([impl = impl_.get()] {
    impl->paused = true;
    impl->publish_stats();
  });
}

void Engine::resume() {
  impl_->post_and_wait([impl = impl_.get()] {
    impl->paused = false;
    impl->publish_stats();
  });
}

void Engine::flush_cache() {
  impl_->post_and_wait([impl = impl_.get()] {
    impl->scheduler.weights_changed();
    impl->publish_stats();
  });
}

void Engine::release_memory() {
  impl_->post_and_wait([impl = impl_.get()] {
    impl->scheduler.preempt_all();
    impl->scheduler.weights_changed();  // no prefix outlives the blocks that hold it
    impl->cache.reset();
    if (!impl->device.is_cpu()) {
      kernels::synchronize(impl->device);
      at::getDeviceAllocator(impl->device.type())->emptyCache();
    }
    impl->publish_stats();
  });
}

void Engine::resume_memory() {
  impl_->post_and_wait([impl = impl_.get()] {
    try {
      if (!impl->cache) impl->make_cache();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      fail(ErrorKind::kMachine, "the KV cache's memory is not free: {}", text.substr(0, text.find('\n')));
    }
    impl->publish_stats();
  });
}

Result<InstalledWeights> Engine::update_weights(const fs::path& path, int64_t version,
                                                const std::map<std::string, std::string>& checksums) {
  Impl& impl = *impl_;
  std::lock_guard one_at_a_time(impl.update_mutex);
  try {
    const StagedWeights staged = stage_weights(*impl.model, path, checksums);
    int64_t installed = 0;
    impl.post_and_wait([&] {
      std::optional<DeviceLock::Hold> hold;
      if (impl.device_lock && !impl.device.is_cpu()) hold.emplace(impl.device_lock->shared());
      install(staged);
      kernels::synchronize(impl.device);
      impl.weight_version = installed = version >= 0 ? version : impl.weight_version + 1;
      impl.scheduler.weights_changed();
      impl.publish_stats();
    });
    return InstalledWeights{installed, model::weight_checksums(*impl.model)};
  } catch (const Error& error) {
    return error;
  }
}

EngineStats Engine::stats() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

bool Engine::healthy() const { return stats().consecutive_failures < kFailuresBeforeRed; }

}  // namespace tritonforge::engine
