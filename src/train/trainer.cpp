#include "train/trainer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "kernels/device.h"
#include "train/gather_model.h"
#include "train/losses.h"
#include "train/micro_batches.h"
#include "train/pipeline.h"
#include "train/schedule.h"
#include "train/to_device.h"

namespace tritonforge::train {
namespace {

// The sequences that are trained on: those with a target and, of an RL step, with none that is too old.
struct Chosen {
  std::vector<TrainSequence> sequences;
  int64_t stale = 0;  // left out
};

Chosen choose(StepKind kind, std::span<const TrainSequence> sequences, const TrainConfig& config,
              std::span<const int64_t> versions) {
  Chosen chosen;
  const bool bounded = kind == StepKind::kRl && config.max_staleness >= 0;
  for (const TrainSequence& sequence : sequences) {
    if (forward_length(sequence) == 0) continue;
    if (bounded && staleness_of(sequence, versions) > config.max_staleness) ++chosen.stale;
    else chosen.sequences.push_back(sequence);
  }
  if (kind == StepKind::kRl && config.loss.normalize_advantages) normalize_advantages(chosen.sequences);
  return chosen;
}

// Dealt to `count` mini-batches in an order drawn from the seed.
std::vector<std::vector<TrainSequence>> split_batch(std::vector<TrainSequence> sequences, int64_t count,
                                                    uint64_t seed) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t parts = std::min<size_t>(static_cast<size_t>(count), order.size());
  if (parts > 1) Rng(seed).shuffle(order);
  std::vector<std::vector<TrainSequence>> batches(parts);
  for (size_t i = 0; i < order.size(); ++i) batches[i % parts].push_back(std::move(sequences[order[i]]));
  return batches;
}

// The rows of an embedding, which has `count` of the vocabulary from `first` on, that the sequences' passes read:
// ascending, each once.
std::vector<int64_t> embedded_rows(const std::vector<TrainSequence>& sequences, int64_t first, int64_t count) {
  std::vector<int64_t> tokens;
  for (const TrainSequence& sequence : sequences)
    tokens.insert(tokens.end(), sequence.tokens.begin(), sequence.tokens.begin() + forward_length(sequence));
  std::ranges::sort(tokens);
  const auto repeated = std::ranges::unique(tokens);
  tokens.erase(repeated.begin(), repeated.end());
  for (int64_t& token : tokens) token -= first;
  std::erase_if(tokens, [&](int64_t row) { return row < 0 || row >= count; });
  return tokens;
}

// Of those of the batch's targets whose scores these are. start, reference: log-probs before the step's
// updates, and the reference model's, of all targets; undefined where there is one update, or no reference.
PolicyInputs inputs_of(const MicroBatch& batch, const TargetSlice& targets, const TargetScores& scores,
                       const at::Tensor& start, const at::Tensor& reference, const LossConfig& loss) {
  PolicyInputs in;
  in.log_probs = scores.log_probs;
  in.sampler_log_probs = targets.of(batch.sampler_log_probs);
  in.old_log_probs = start.defined() ? targets.of(start) : scores.log_probs.detach();
  if (loss.ratio_base == RatioBase::kSampler) in.old_log_probs = in.sampler_log_probs;
  in.entropy = scores.entropy;
  in.advantages = targets.of(batch.advantages);
  in.weights = targets.of(batch.weights);
  in.on_policy = targets.of(batch.on_policy);
  in.lengths = batch.lengths;
  in.reference_log_probs = targets.of(reference);
  return in;
}

int64_t bytes_of(const model::ModelConfig& shape, const model::Model& like) {
  return shape.parameter_count() * static_cast<int64_t>(like.arena().element_size());
}

// whole: the model that the ranks have parts of. ranks: that share the host's memory. gathers: this one puts the whole
// together.
std::optional<MemoryPlan> plan_of(const model::Model& model, const model::ModelConfig& whole, const TrainConfig& config,
                                  int64_t ranks, bool gathers) {
  if (config.recompute_layers > whole.num_layers)
    fail(ErrorKind::kUsage, "recompute_layers {}: the model has {} layers", config.recompute_layers, whole.num_layers);
  if (!gpu_refusal(model, config).empty()) return std::nullopt;
  MemoryPlan plan = plan_memory(model.config(), model.arena().numel(), config, kernels::free_memory(model.device()),
                                kernels::free_memory(at::kCPU) / ranks);
  const int64_t bytes = bytes_of(whole, model);
  if (gathers && puts_together_on_gpu(bytes, plan.free - plan.total())) plan.whole = bytes;
  for (const std::string& line : plan.lines()) log::info("memory plan: {}", line);
  return plan;
}

// layers: of this rank's stage.
TrainConfig as_planned(TrainConfig config, int64_t layers, const std::optional<MemoryPlan>& plan) {
  config.recompute_layers = plan ? plan->recompute.layers : std::clamp<int64_t>(config.recompute_layers, 0, layers);
  if (plan) config.recompute_qkv_layers = plan->recompute.qkv_layers;
  return config;
}

}  // namespace

Trainer::Trainer(TrainConfig config, model::Model model, std::optional<model::Model> reference, DeviceRate rate,
                 parallel::World* world)
    : config_(std::move(config)),
      world_(world),
      groups_(world != nullptr ? world->groups() : parallel::Groups{}),
      at_(world != nullptr ? world->at() : parallel::Coordinates{}),
      stage_(stage_at(config_.parallel, at_)),
      model_(std::move(model)),
      shape_(model::whole_of(model_.config(), config_.parallel.tp)),
      reference_(std::move(reference)),
      plan_(plan_of(model_, shape_, config_, world != nullptr ? world->ranks_here() : 1,
                    has_part() && world->rank() == 0)),
      planned_(as_planned(config_, model_.config().num_layers, plan_)),
      gradients_(make_gradients(model_, planned_)),
      optimizer_(make_optimizer(model_, gradients_ ? &*gradients_ : nullptr, groups_, planned_)),
      rate_(rate),
      clock_(model_.device()) {
  TF_CHECK(config_.parallel.world() == (world_ != nullptr ? world_->size() : 1), "{} ranks for a job of {}",
           world_ != nullptr ? world_->size() : 1, config_.parallel.world());
  TF_CHECK(reference_.has_value() == (config_.loss.kl_coef > 0), "a reference model and kl_coef {}",
           config_.loss.kl_coef);
  make_passes();
  const auto layout = pass_->segments();
  if (config_.share_prefixes && layout && (!reference_pass_ || reference_pass_->segments()))
    sharing_ = SharingCosts{TrainingFlops(shape_), *layout};
  state_.weight_versions = {0};
}

void Trainer::make_passes() {
  pass_ = make_pass(model_, planned_, gradients_ ? &*gradients_ : nullptr, groups_);
  if (reference_) reference_pass_ = make_pass(*reference_, planned_, nullptr, groups_);
}

namespace {

// Of each batch; of a pipeline's stage but the last, undefined.
std::vector<at::Tensor> log_probs_of(Pass& pass, const model::Stage& stage, const std::vector<MicroBatch>& batches) {
  std::vector<at::Tensor> log_probs(batches.size());
  for (const auto& [forward, chunk, number] : one_forward_one_backward(stage, std::ssize(batches))) {
    const auto index = static_cast<size_t>(number);
    if (forward) log_probs[index] = pass.forward(batches[index], false, {}, chunk).log_probs;
  }
  pass.settle();
  return log_probs;
}

}  // namespace

void Trainer::check(StepKind kind, std::span<const TrainSequence> sequences) const {
  const int64_t targets = check_sequences(sequences, config_, shape_.vocab_size, shape_.max_position);
  if (targets == 0 && kind == StepKind::kSft)
    fail(ErrorKind::kUsage, "nothing to train on: no token has loss_mask set");
}

PackedStep Trainer::pack(StepKind kind, std::span<const TrainSequence> sequences, int64_t step,
                         std::vector<int64_t> versions) const {
  const bool pinned = model_.device().is_cuda();
  const int64_t vocab = model_.config().vocab_size;
  Chosen chosen = choose(kind, sequences, config_, versions);
  PackedStep packed{.kind = kind, .step = step, .versions = std::move(versions), .updates = {}, .stale = chosen.stale};
  for (const auto& part :
       split_batch(std::move(chosen.sequences), config_.optimizer_steps_per_batch, Rng::derive(config_.seed, step))) {
    auto& update = packed.updates.emplace_back();
    update.batches = micro_batches(kind, part, config_, packed.versions, shape_, sharing_, pinned, at_.dp);
    if (groups_.zero != nullptr && model_.config().has_table())
      update.embedded = on_host(embedded_rows(part, at_.tp * vocab, vocab), pinned);
  }
  return packed;
}

PackedStep Trainer::pack_ahead(StepKind kind, std::span<const TrainSequence> sequences, int64_t step,
                               std::vector<int64_t> versions) const {
  check(kind, sequences);
  return pack(kind, sequences, step, std::move(versions));
}

std::vector<Trainer::Update> Trainer::prepare(PackedStep packed, StepRecord& record) {
  if (packed.stale > 0) {
    log::warn("step {}: {} sequences are left out: a token is more than {} weight versions old", packed.step,
              packed.stale, config_.max_staleness);
  }
  record.add_stale(packed.stale);
  std::vector<Update> updates;
  for (PackedStep::Update& part : packed.updates) {
    Update& update = updates.emplace_back();
    for (MicroBatch& batch : part.batches) update.batches.push_back(to_device(std::move(batch), model_.device()));
    if (part.embedded.defined()) update.embedded = part.embedded.to(model_.device(), /*non_blocking=*/true);
  }
  if (packed.kind == StepKind::kSft) return updates;
  for (Update& update : updates) {
    if (reference_pass_) {
      clock_.begin(StepPart::kScores, "the reference model");
      update.reference_log_probs = log_probs_of(*reference_pass_, stage_, update.batches);
    }
    // With one update the ratio's denominator is the forward pass itself; with more, the weights move in between.
    if (updates.size() == 1) continue;
    clock_.begin(StepPart::kScores, "the weights before the step");
    update.start_log_probs = log_probs_of(*pass_, stage_, update.batches);
  }
  return updates;
}

ScoreGradients Trainer::forward_over(StepKind kind, const Update& update, size_t index, int64_t chunk,
                                     StepRecord& record) {
  const MicroBatch& batch = update.batches[index];
  const std::string name = fmt::format("micro-batch {} of {}", index + 1, update.batches.size());
  const auto of_batch = [&](const std::vector<at::Tensor>& each) { return each.empty() ? at::Tensor() : each[index]; };
  const at::Tensor start = of_batch(update.start_log_probs), reference = of_batch(update.reference_log_probs);
  const TargetSlice all{0, batch.target_count};
  const auto inputs = [&](const TargetSlice& targets, const TargetScores& scores) {
    return inputs_of(batch, targets, scores, start, reference, config_.loss);
  };
  KnownGradients known;
  if (kind == StepKind::kSft) {
    known = [&](const TargetSlice& targets, const TargetScores&) -> ScoreGradients {
      return {sft_gradient(targets.of(batch.weights)), {}};
    };
  } else if (is_of_each_token(config_.loss)) {
    known = [&](const TargetSlice& targets, const TargetScores& scores) {
      return policy_gradients(inputs(targets, scores), config_.loss);
    };
  }
  clock_.begin(StepPart::kForward, name);
  const TargetScores scores = pass_->forward(batch, true, known, chunk);
  if (!scores.log_probs.defined()) return {};  // the last part has them
  clock_.begin(StepPart::kLoss, name);
  if (kind == StepKind::kSft) {
    record.add_sft(batch, scores, sft_loss(scores.log_probs, batch.weights));
    return {};
  }
  record.add_rl(batch, scores, start.defined() ? start : scores.log_probs,
                policy_loss(inputs(all, scores), config_.loss));
  return known ? ScoreGradients{} : policy_gradients(inputs(all, scores), config_.loss);
}

void Trainer::pass_over(StepKind kind, const Update& update, StepRecord& record) {
  const auto count = std::ssize(update.batches);
  std::vector<ScoreGradients> gradients(update.batches.size());
  for (const auto& [forward, chunk, number] : one_forward_one_backward(stage_, count)) {
    const auto index = static_cast<size_t>(number);
    if (forward) {
      gradients[index] = forward_over(kind, update, index, chunk, record);
      if (chunk == 0) record.add_flops(training_flops(shape_, update.batches[index]));
      continue;
    }
    clock_.begin(StepPart::kBackward, fmt::format("micro-batch {} of {}", number + 1, count));
    if (number + 1 == count) optimizer_->before_last_pass();
    pass_->backward(std::exchange(gradients[index], {}), chunk);
    optimizer_->accumulate_gradients();
  }
  pass_->settle();
}

std::vector<Trainer::Update> Trainer::begin_step(StepKind kind, std::span<const TrainSequence> sequences, int64_t step,
                                                 std::optional<PackedStep> ahead, StepRecord& record) {
  if (world_ != nullptr) {  // what was waited for between the steps is none of this one's
    kernels::synchronize(model_.device());
    world_->waited_s();
  }
  if (!pass_ || (reference_ && !reference_pass_)) make_passes();
  const bool as_counted = ahead && ahead->step == step && ahead->kind == kind &&
                          (kind == StepKind::kSft || ahead->versions == state_.weight_versions);
  return prepare(as_counted ? *std::move(ahead) : pack(kind, sequences, step, state_.weight_versions), record);
}

void Trainer::take_update(StepKind kind, const Update& update, double rate, StepRecord& record) {
  optimizer_->before_passes(update.embedded);
  pass_over(kind, update, record);
  clock_.begin(StepPart::kUpdate);
  broken_ = true;  // until the last update is in: some weights have moved, the step is not done
  record.add_update(optimizer_->step(rate));
  pass_->weights_changed();
}

StepMetrics Trainer::read(StepRecord& record) {
  StepMetrics metrics = world_ == nullptr
                            ? record.read()  // waits for the device
                            : record.read(&world_->host(), at_.tp == 0 && at_.cp == 0 && model_.config().predicts());
  metrics.part_seconds = clock_.end();
  if (world_ != nullptr) metrics.seconds_communication = world_->waited_s();
  return metrics;
}

void Trainer::step_failed(int64_t step, const std::exception& error, bool agreed) {
  clock_.abandon();
  optimizer_->clear_gradients();
  const bool full = is_out_of_memory(error);
  const std::string why = full ? out_of_memory(error, planned_, plan_ ? &*plan_ : nullptr, model_.device())
                               : error.what();
  if (world_ != nullptr && agreed)
    world_->report(fmt::format("step {}: {}", step, why), parallel::is_of_another(error));
  if (!full) return;
  pass_.reset();  // they may have a part of what they need
  reference_pass_.reset();
  fail(ErrorKind::kInternal, "step {}: {}", step, why);
}

void Trainer::add_speeds(StepMetrics& metrics, double flops) const {
  const double seconds = std::max(metrics.seconds, 1e-9), reached = flops / seconds;
  const auto devices = static_cast<double>(config_.parallel.world());
  metrics.tokens_per_s = metrics.tokens / seconds;
  metrics.tflops = reached / 1e12;
  if (rate_.peak > 0) metrics.mfu = reached / devices / rate_.peak;
  if (rate_.products > 0) metrics.of_product_rate = reached / devices / rate_.products;
  metrics.memory_gib = static_cast<double>(kernels::used_memory(model_.device())) / (int64_t{1} << 30);
}

StepMetrics Trainer::train_step(StepKind kind, std::span<const TrainSequence> sequences,
                                const std::optional<BatchFigures>& leased, std::optional<PackedStep> ahead) {
  if (broken_)
    fail(ErrorKind::kInternal, "the step after {} failed halfway: restart the trainer with --resume", state_.step);
  const auto started = Clock::now();
  const int64_t step = state_.step + 1;
  const double rate = learning_rate(config_, step);
  StepRecord record;
  StepMetrics metrics;
  size_t update_count = 0;
  bool agreed = false;  // that the step can be taken, by whatever the other ranks see, too
  if (world_ != nullptr) world_->recorder().at(fmt::format("step {}", step));
  try {
    clock_.begin(StepPart::kPack);
    check(kind, sequences);
    agreed = true;
    const std::vector<Update> updates = begin_step(kind, sequences, step, std::move(ahead), record);
    update_count = updates.size();
    for (const Update& update : updates) take_update(kind, update, rate, record);
    metrics = read(record);
  } catch (const std::exception& error) {
    step_failed(step, error, agreed);
    throw;
  }
  broken_ = false;
  state_.step = step;
  const bool moved = metrics.skipped_updates < static_cast<double>(update_count);
  if (moved) state_.weight_versions.clear();  // else the engines' versions are still these weights
  metrics.step = step;
  metrics.kind = kind;
  metrics.batch = leased;
  metrics.lr = rate;
  metrics.sequences = static_cast<double>(sequences.size());
  metrics.seconds = seconds_since(started);
  add_speeds(metrics, record.flops());
  state_.last = metrics;
  return metrics;
}

void Trainer::restore(TrainerState state) {
  state_ = std::move(state);
  optimizer_->masters_changed();
  pass_->weights_changed();
}

const model::Model& Trainer::whole_model() {
  if (!has_part()) return model();
  together("the whole model", [this] {
    if (!whole_) {
      // Beside the part of it, where a half of what is free is left: engines on this host then take it from there.
      const bool fits = puts_together_on_gpu(bytes_of(shape_, model_), kernels::free_memory(model_.device()));
      whole_.emplace(shape_, model_.dtype(), fits ? model_.device() : at::Device(at::kCPU));
    }
    gather_model(model(), groups_, &*whole_);
    kernels::synchronize(model_.device());
  });
  return *whole_;
}

void Trainer::give_model() {
  if (has_part() && at_.cp == 0 && at_.dp == 0) gather_model(model(), groups_, nullptr);
}

void Trainer::published(int64_t version) {
  auto& versions = state_.weight_versions;
  if (std::find(versions.begin(), versions.end(), version) == versions.end()) versions.push_back(version);
}

std::unique_ptr<Trainer> make_trainer(const TrainConfig& config, const fs::path& weights, parallel::World* world) {
  config.validate_job();
  const at::ScalarType dtype = config.dtype == "float32" ? at::kFloat : at::kBFloat16;
  const at::Device device = kernels::open_device(config.device);
  at::globalContext().setDeterministicAlgorithms(config.deterministic, /*warn_only=*/true);
  const parallel::Coordinates place = world != nullptr ? world->at() : parallel::Coordinates{};
  const model::TensorParallel at{place.tp, config.parallel.tp};
  const model::Stage stage = stage_at(config.parallel, place);
  const auto load = [&](const fs::path& path) {
    if (!config.init_random) return model::load_model_part(path, dtype, device, at, stage);
    model::Model model(model::stage_of(model::part_of(model::read_model_config(path), at.size), stage), dtype, device);
    model::init_random_part(model, at, static_cast<uint64_t>(config.seed));
    return model;
  };
  model::Model model = weights.empty() ? load(config.model) : model::load_model_part(weights, dtype, device, at, stage);
  std::optional<model::Model> reference;
  if (config.loss.kl_coef > 0) {
    const fs::path& path = config.reference_model.empty() ? config.model : config.reference_model;
    reference = model::load_model_part(path, dtype, device, at, stage);
    if (reference->config().vocab_size != model.config().vocab_size) {
      fail(ErrorKind::kUsage, "reference_model has a vocabulary of {}, the model of {}",
           reference->config().vocab_size * at.size, model.config().vocab_size * at.size);
    }
  }
  return std::make_unique<Trainer>(config, std::move(model), std::move(reference), device_rate(device, dtype), world);
}

}  // namespace tritonforge::train
