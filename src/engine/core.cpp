#include "engine/core.h"

#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <set>

#include "base/log.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"

namespace tritonforge::engine {
namespace {

// Adds the time of its scope to a counter of seconds.
class Range {
 public:
  explicit Range(double& seconds) : seconds_(seconds) {}
  ~Range() { seconds_ += seconds_since(start_); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

EngineInfo describe(const EngineOptions& options, const SizedRunner& made, const model::Parts& parts,
                    const tokenizer::Tokenizer* tokenizer) {
  const model::Model& model = parts.first();
  const model::ModelConfig config = parts.config();
  EngineInfo info{.model_path = options.model.string(),
                  .device = model.device().str(),
                  .dtype = model.stored_bytes() > 0 ? "as_stored" : model::dtype_name(model.dtype()),
                  .kv_cache_dtype = std::string(tritonforge::name_of(options.kv_cache_dtype)),
                  .weight_dtype = std::string(tritonforge::name_of(options.weight_dtype)),
                  .family = config.family == model::Family::kQwen2 ? "qwen2" : "qwen3",
                  .tp = parts.size(),
                  .vocab_size = config.vocab_size,
                  .max_context = made.sizes.max_context,
                  .kv_cache_tokens = (made.sizes.blocks - 1) * kBlockSize,
                  .parameters = config.parameter_count(),
                  .eos_token_ids = config.eos_token_ids,
                  .has_tokenizer = tokenizer != nullptr,
                  .memory = made.plan};
  const auto end = tokenizer != nullptr ? tokenizer->eos_id() : std::nullopt;
  if (end && std::ranges::find(info.eos_token_ids, *end) == info.eos_token_ids.end()) {
    info.eos_token_ids.push_back(*end);
  }
  return info;
}

Ranks one(std::unique_ptr<model::Model> model) {
  Ranks ranks;
  ranks.push_back(std::move(model));
  return ranks;
}

// "cuda:0 or cuda:1"
std::string devices_of(const Ranks& models) {
  std::set<std::string> names;
  for (const auto& model : models) names.insert(model->device().str());
  return fmt::format("{}", fmt::join(names, " or "));
}

void pack(const Ranks& models) {
  for (const auto& model : models) model->pack();
}

}  // namespace

Core::Core(EngineOptions options, std::unique_ptr<model::Model> model,
           std::shared_ptr<const tokenizer::Tokenizer> tokenizer, std::function<void(const EngineStats&)> publish,
           const MakeRunner& make)
    : Core(std::move(options), one(std::move(model)), std::move(tokenizer), std::move(publish),
           [&make](const Core& core) { return make(core.options_, core.model()); }) {}

Core::Core(EngineOptions options, Ranks ranks, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
           std::function<void(const EngineStats&)> publish, const MakeTeamRunner& make)
    : Core(std::move(options), std::move(ranks), std::move(tokenizer), std::move(publish),
           [&make](const Core& core) { return make(core.options_, core.parts_); }) {}

Core::Core(EngineOptions options, Ranks ranks, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
           std::function<void(const EngineStats&)> publish, const std::function<SizedRunner(const Core&)>& make)
    : options_(std::move(options)),
      models_(std::move(ranks)),
      parts_(models_),
      tokenizer_(std::move(tokenizer)),
      publish_(std::move(publish)),
      device_(model().device()),
      made_((pack(models_), make(*this))),
      sizes_(made_.sizes),
      runner_(made_.runner.get()),
      info_(describe(options_, made_, parts_, tokenizer_.get())),
      pool_(sizes_.blocks, kBlockSize, options_.reuse_prefixes, sizes_.host_blocks),
      scheduler_({options_.max_running, sizes_.step_tokens, options_.draft_tokens}, pool_),
      offload_(models_),
      // Who shares the device gives it back between two steps: nothing may be queued then. Who drafts has to know all
      // that was said.
      ahead_(options_.step_ahead && !options_.share_device && options_.draft_tokens == 0 && runner_->runs_ahead() ? 1
                                                                                                                  : 0) {
  TF_CHECK(model().fp8_matrices() == (options_.weight_dtype == WeightDtype::kFp8), "weights of another weight_dtype");
  TF_CHECK(parts_.size() == options_.tp, "{} ranks for tp {}", parts_.size(), options_.tp);
  if (!options_.share_device) return;
  std::set<std::string> devices;
  for (const auto& model : models_) devices.insert(kernels::device_identity(model->device()));
  for (const std::string& device : devices) device_locks_.emplace_back(device);
}

std::string Core::first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// ---- Requests ----

Result<Arrival> Core::arrival(Request request) const {
  const auto& ids = request.prompt_ids;
  const auto refuse = [](std::string why) { return Error(ErrorKind::kUsage, why); };
  try {
    request.sampling.validate(info_.vocab_size);
    request.log_probs.validate(info_.vocab_size, std::ssize(ids));
  } catch (const Error& error) {
    return error;
  }
  if (ids.empty()) return refuse("the prompt is empty");
  const auto outside = std::ranges::find_if(ids, [&](int64_t id) { return id < 0 || id >= info_.vocab_size; });
  if (outside != ids.end()) {
    return refuse(fmt::format("the prompt holds token {}, outside the vocabulary of {}", *outside, info_.vocab_size));
  }
  if (static_cast<int64_t>(ids.size()) >= info_.max_context) {
    return refuse(fmt::format("the prompt has {} tokens; the context of {} leaves no room for an answer", ids.size(),
                              info_.max_context));
  }
  if (!tokenizer_ && !request.sampling.stop.empty()) return refuse("sampling_params.stop needs a tokenizer");
  return std::make_unique<LiveRequest>(std::move(request), tokenizer_.get(), info_.eos_token_ids, info_.max_context);
}

void Core::admit(Arrival arrival) {
  LiveRequest& added = *arrival;
  if (live_.contains(added.request.id)) {
    for (const auto& sample : added.samples) {
      added.end(*sample, FinishReason::kAbort, fmt::format("a request with id '{}' is running", added.request.id));
    }
    counters_.ended_samples += static_cast<int64_t>(added.samples.size());
    publish();
    if (added.request.on_output) added.request.on_output(added.take());
    return;
  }
  if (live_.empty()) scheduler_.limit_running(options_.max_running);
  for (const auto& sample : added.samples) scheduler_.add(&sample->sequence);
  live_.emplace(added.request.id, std::move(arrival));
}

void Core::abort(LiveRequest& request, const std::string& why) {
  for (const auto& sample : request.samples) {
    if (sample->finished()) continue;
    request.end(*sample, FinishReason::kAbort, why);
    end_sample(*sample);
  }
  send(request);
}

void Core::abort_where(const std::function<bool(const Request&)>& is_meant, const std::string& why) {
  std::vector<LiveRequest*> meant;
  for (const auto& [id, live] : live_) {
    if (is_meant(live->request)) meant.push_back(live.get());
  }
  for (LiveRequest* live : meant) abort(*live, why);
}

void Core::abort(const std::string& id, const std::string& why) {
  const auto has_it = [&](const Request& request) { return request.id == id || request.list_id == id; };
  if (!id.empty()) abort_where(has_it, why);  // "" is of no list
}

void Core::abort_of(const void* sender, const std::string& why) {
  abort_where([&](const Request& request) { return request.sender == sender; }, why);
}

void Core::abort_all(const std::string& why) {
  abort_where([](const Request&) { return true; }, why);
}

void Core::expire(Clock::time_point now) {
  abort_where([&](const Request& request) { return request.deadline.at() <= now; }, "the request's deadline passed");
}

Clock::time_point Core::first_deadline() const {
  auto first = Clock::time_point::max();
  for (const auto& [id, request] : live_) first = std::min(first, request->request.deadline.at());
  return first;
}

// It takes part in no step from now on; what a step in flight draws for it is dropped.
void Core::end_sample(LiveSample& sample) {
  scheduler_.remove(&sample.sequence);
  ++counters_.ended_samples;
  for (Step& step : in_flight_) {
    const auto found = std::ranges::find(step.draws, &sample, &Draws::sample);
    if (found != step.draws.end()) found->sample = nullptr;
    std::ranges::replace(step.scored, &sample, static_cast<LiveSample*>(nullptr));
  }
}

// Hands over what is new; a request that is over leaves.
void Core::send(LiveRequest& request) {
  if (!request.changed) return;
  request.changed = false;
  const bool over = request.finished();
  if (over) {
    const auto& samples = request.samples;
    const bool aborted = std::ranges::any_of(
        samples, [](const auto& sample) { return sample->out().finish == FinishReason::kAbort; });
    ++(aborted ? counters_.aborted_requests : counters_.finished_requests);
    counters_.cached_tokens += std::max<int64_t>(0, samples[0]->sequence.cached_tokens);
    count_times(request);
    publish();
  }
  if (request.request.on_output && (over || request.request.stream)) {
    Output output = request.take();
    output.weight_version = weight_version_;
    request.request.on_output(std::move(output));
  }
  if (!over) return;
  live_.erase(std::string(request.request.id));
}

void Core::count_times(const LiveRequest& request) {
  const double latency = seconds_since(request.submitted), first_token = request.output.first_token_s;
  counters_.request_time.add(latency);
  if (request.queue_s >= 0) counters_.queue_time.add(request.queue_s);
  if (first_token == 0) return;
  counters_.first_token_time.add(first_token);
  for (const auto& sample : request.samples) {
    const int64_t tokens = std::ssize(sample->sequence.tokens) - sample->sequence.prompt_tokens;
    if (tokens > 1) counters_.token_time.add((latency - first_token) / static_cast<double>(tokens - 1));
  }
}

// ---- The step ----

// plan -> tensors -> forward pass -> draws -> the requests. With steps ahead, the draws are those of the step before,
// which has run while this one was planned.
void Core::step() {
  const Range whole(counters_.step_seconds);
  auto holds = hold_devices();
  if (!packed_) pack(models_);
  packed_ = true;
  const Plan& next = plan();
  fill(next);
  forward(next);
  while (const std::optional<Step> done = draw(next, holds)) deliver(*done);
}

void Core::step_or_recover() {
  try {
    step();
  } catch (const std::bad_alloc& error) {
    step_out_of_memory(error.what());
  } catch (const c10::OutOfMemoryError& error) {
    step_out_of_memory(error.what());
  } catch (const gpu::OutOfMemory& error) {
    step_out_of_memory(error.what());
  } catch (const std::exception& error) {
    step_failed(error.what());
  }
}

Core::DeviceHolds Core::hold_devices() {
  DeviceHolds holds;
  for (DeviceLock& device : device_locks_) holds.push_back(device.shared());
  return holds;
}

void Core::synchronize() const {
  for (const auto& model : models_) kernels::synchronize(model->device());
}

const Plan& Core::plan() {
  const Range range(counters_.stages.plan);
  const Plan& plan = scheduler_.schedule();
  counters_.preemptions += plan.preempted;
  return plan;
}

void Core::fill(const Plan& plan) {
  const Range range(counters_.stages.fill);
  if (!plan.moves.empty()) {
    runner_->move_blocks(plan.moves);
    const auto sent = std::ranges::count_if(plan.moves, &BlockMove::to_host);
    counters_.blocks_to_host += sent;
    counters_.blocks_from_host += std::ssize(plan.moves) - sent;
  }
  if (plan.chunks.empty()) return;
  rows_.clear();
  draws_.clear();
  scored_.clear();
  work_.clear();
  int64_t first_token = 0;
  for (const Chunk& chunk : plan.chunks) {
    LiveSample& sample = *chunk.sequence->sample;
    if (sample.request->queue_s < 0) sample.request->queue_s = seconds_since(sample.request->submitted);
    if (!chunk.sequence->may_draft) ask(chunk, first_token);
    first_token += chunk.count;
    if (!chunk.samples) continue;
    for (int64_t left = chunk.drafts; left >= 0; --left) {
      sample.row.position = static_cast<uint64_t>(chunk.start + chunk.count - left);
      rows_.push_back(sample.row);
    }
    const bool asks = sample.rules || sample.request->request.log_probs.beside_tokens();
    draws_.push_back({&sample, chunk.draws(), asks ? std::ssize(work_.draws) - 1 : -1});
  }
  runner_->fill(plan, rows_);
  if (!work_.empty()) runner_->ask(plan, work_);
}

// What its sequence wants of the logits beside a draw: of the rows of its prompt, and of the one that is about to draw.
void Core::ask(const Chunk& chunk, int64_t first_token) {
  LiveSample& sample = *chunk.sequence->sample;
  const LogProbsWanted& wanted = sample.request->request.log_probs;
  const int64_t from = std::max(chunk.start, sample.request->unscored_from(sample));
  const int64_t count = std::min(chunk.start + chunk.count, sample.request->unscored_end()) - from;
  if (count > 0) {
    const auto targets = std::span(chunk.sequence->tokens).subspan(static_cast<size_t>(from) + 1);
    work_.prompts.push_back(
        {first_token + from - chunk.start, targets.first(static_cast<size_t>(count)), wanted.top, wanted.ids});
    scored_.push_back(&sample);
  }
  if (chunk.samples && (sample.rules || wanted.beside_tokens())) {
    work_.draws.push_back({std::ssize(rows_), sample.rules ? sample.rules->edits() : std::span<const LogitEdit>(),
                           wanted.top, wanted.ids});
  }
}

void Core::forward(const Plan& plan) {
  const Range range(counters_.stages.forward);
  if (plan.chunks.empty()) return;
  runner_->forward();
  scheduler_.commit(plan);
  int64_t row = 0;
  for (const Draws& draws : draws_) {
    ++draws.sample->sequence.pending;
    draws.sample->sequence.pending_row = row;
    row += draws.rows;
  }
  in_flight_.push_back({draws_, {}, plan.tokens - plan.samples, scored_});
}

std::optional<Core::Step> Core::draw(const Plan& plan, DeviceHolds& holds) {
  const Range range(counters_.stages.draw);
  // Nothing planned: whatever goes on waits for the tokens of the step in flight. Nor does a step stay whose logits are
  // read: the next draw's edits depend on its tokens.
  const size_t may_stay = plan.chunks.empty() || !work_.empty() ? 0 : ahead_;
  std::optional<Step> done;
  if (in_flight_.size() > may_stay) done = read_oldest();
  if (!holds.empty()) {
    synchronize();
    holds.clear();
  }
  return done;
}

void Core::deliver(const Step& step) {
  const Range range(counters_.stages.deliver);
  ++counters_.steps;
  counters_.consecutive_failures = 0;
  counters_.last_failure.clear();
  counters_.prompt_tokens += step.prompt_tokens;

  for (size_t i = 0; i < step.scored.size(); ++i) {
    if (LiveSample* sample = step.scored[i]) sample->request->accept_prompt(*sample, step.answers->prompts[i]);
  }

  // Draws go to their sample, unless that ended meanwhile.
  touched_.clear();
  size_t row = 0;
  for (const Draws& draws : step.draws) {
    const auto drawn = step.drawn.subspan(row, static_cast<size_t>(draws.rows));
    row += drawn.size();
    if (draws.sample == nullptr) continue;
    if (!draws.sample->request->changed) touched_.push_back(draws.sample->request);
    take(*draws.sample, drawn, draws.asked < 0 ? nullptr : &step.answers->draws[static_cast<size_t>(draws.asked)]);
  }
  for (LiveRequest* request : touched_) send(*request);
}

// The token after its last own one, and one more for each draft that was drawn: from there on the draws are those of a
// text that it did not say. A draw is a function of seed, position and logits, so drafts change no token.
void Core::take(LiveSample& sample, std::span<const kernels::Sampled> drawn, const TokenScores* scores) {
  LiveRequest& request = *sample.request;
  Sequence& sequence = sample.sequence;
  --sequence.pending;
  counters_.drafted_tokens += std::ssize(drawn) - 1;
  for (size_t i = 0; i < drawn.size() && !sample.finished(); ++i) {
    if (i > 0 && sequence.drafts[i - 1] != drawn[i - 1].token) break;
    if (i > 0) {
      scheduler_.confirm_draft(&sequence);
      ++counters_.accepted_drafts;
    }
    if (drawn[i].token < 0) request.end(sample, FinishReason::kAbort, "the logits are not finite");
    else request.accept(sample, drawn[i].token, drawn[i].log_prob, weight_version_, scores);
    ++counters_.generated_tokens;
  }
  sample.out().mixed_cache = sample.out().mixed_cache || sequence.mixes_weights;
  if (sample.finished()) end_sample(sample);
}

Core::Step Core::read_oldest() {
  const auto drawn = runner_->draw();
  Step done = std::move(in_flight_.front());
  in_flight_.pop_front();
  done.drawn = drawn;
  done.answers = &runner_->answers();
  return done;
}

// Their tokens are drawn again when their sequences are computed again.
void Core::forget_steps_in_flight() {
  for (const Step& step : in_flight_) {
    for (const Draws& draws : step.draws) {
      if (draws.sample != nullptr) --draws.sample->sequence.pending;
    }
  }
  in_flight_.clear();
  runner_->discard();
}

void Core::settle() {
  while (!in_flight_.empty()) deliver(read_oldest());
  synchronize();  // a step without draws is read without a wait
}

void Core::step_failed(const std::string& why) {
  const std::string line = first_line(why);
  try {
    runner_->check_device(device_);
  } catch (const std::exception&) {
    // The process ends, so that its supervisor starts one with a new context and the newest weights. Who waits here is
    // cut off and asks again.
    log::error("the engine ends, to be started again: {} is lost with a step of {} requests: {}", devices_of(models_),
               live_.size(), line);
    std::_Exit(1);
  }
  log::error("engine step failed, {} requests aborted: {}", live_.size(), line);
  ++counters_.failed_steps;
  ++counters_.consecutive_failures;
  counters_.last_failure = line;
  in_flight_.clear();
  runner_->discard();
  abort_all("a step of the engine failed: " + line);
  scheduler_.forget_prefixes();
}

void Core::step_out_of_memory(const std::string& why) {
  const int64_t running = scheduler_.running();
  const Sequence* alone = running == 1 ? scheduler_.oldest() : nullptr;
  forget_steps_in_flight();
  if (alone != nullptr) {
    abort(*alone->sample->request, "a step of this request alone is too large for the memory: " + first_line(why));
  } else {
    log::warn("no memory for a step of {} sequences; {} at once until all are done: {}", running, running / 2,
              first_line(why));
    scheduler_.limit_running(running / 2);
    counters_.preemptions += running;
  }
  scheduler_.preempt_all();
  scheduler_.forget_prefixes();  // what the step was to write into published blocks is not there
  publish();
}

EngineStats Core::stats() const {
  EngineStats now = counters_;
  now.running = scheduler_.running();
  now.waiting = scheduler_.waiting();
  now.weight_version = weight_version_;
  now.kv_tokens_free = pool_.available() * kBlockSize;
  now.kv_tokens_total = pool_.capacity() * kBlockSize;
  now.prefix_blocks = pool_.cached();
  now.host_blocks = pool_.on_host();
  now.graph_steps = runner_->graph_launches().graphs;
  now.graph_nodes = runner_->graph_launches().nodes;
  now.paused = paused_;
  now.draining = draining();
  now.cache_released = !runner_->has_memory();
  now.weights_released = offload_.offloaded();
  return now;
}

void Core::publish() const {
  if (publish_) publish_(stats());
}

}  // namespace tritonforge::engine
