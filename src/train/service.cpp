#include "train/service.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"
#include "contract/lease.h"
#include "kernels/device.h"
#include "net/wire.h"

namespace tritonforge::train {
namespace {

constexpr size_t kRememberedLeases = 256;  // committed ones that are still refused by name

std::string run_id_of(const TrainConfig& config) {
  if (!config.run_id.empty()) return config.run_id;
  return checksum(
             fs::absolute(config.checkpoint.empty() ? config.model : config.checkpoint).lexically_normal().string())
      .substr(0, 12);
}

// Of a step that failed halfway they are of no step: nobody may go on from them.
void check_weights(const Trainer& trainer) {
  if (trainer.broken())
    fail(ErrorKind::kInternal, "the step after {} failed halfway: restart the trainer with --resume",
         trainer.state().step);
}

net::ClientOptions client_options(const ServiceOptions& options) {
  net::ClientOptions client;
  client.timeout_s = options.config.buffer_timeout_s;
  client.longest_reply = uint64_t{1} << 36;  // a lease is as long as the recipe makes it
  client.api_key = options.peer_api_key;
  return client;
}

}  // namespace

TrainerService::TrainerService(ServiceOptions options)
    : options_(std::move(options)), buffer_client_(client_options(options_)) {
  options_.config.validate_job();
  world_ = join_ranks(options_.config, options_.ranks);
  set_up_thread();
  try {
    start();
  } catch (const std::exception& error) {
    if (world_) world_->report(error.what());
    throw;
  }
}

void TrainerService::start() {
  const TrainConfig& config = options_.config;
  fs::path resume_from;
  if (!config.checkpoint.empty()) {
    store_ = std::make_unique<CheckpointStore>(config.checkpoint, config.keep_checkpoints);
    resume_from = store_->latest();
    if (!resume_from.empty() && !options_.resume) {
      fail(ErrorKind::kUsage, "{} holds {}: pass --resume to go on from it, or name another folder", config.checkpoint,
           resume_from.filename().string());
    }
  } else if (options_.resume) {
    fail(ErrorKind::kUsage, "--resume needs 'checkpoint', the folder to go on from");
  }
  buffer_ = options_.buffer;
  if (world_) world_->meeting().put("resume", resume_from);
  trainer_ = resume_from.empty() ? make_trainer(config, {}, world_.get())
                                 : resume_trainer(config, resume_from, world_.get());
  publisher_ = std::make_unique<Publisher>(run_id_of(config));
  if (!options_.weights_host.empty() && !options_.weights_in_parts)
    publisher_->serve(options_.weights_host, options_.weights_key);
  offer_ = std::make_unique<PartsOffer>(
      world_.get(), options_.weights_host.empty() ? "127.0.0.1" : options_.weights_host, options_.weights_key);
  if (options_.share_device)
    device_lock_ = std::make_unique<DeviceLock>(kernels::device_identity(trainer_->model().device()));
  if (!resume_from.empty()) {
    leases_ = checkpoint_leases(resume_from);
    checkpoint_step_ = trainer_->state().step;
    checkpoint_path_ = resume_from;
    metrics_.set("checkpoint_step", static_cast<double>(checkpoint_step_));
    log::info("resumed {} at step {}", resume_from.string(), checkpoint_step_);
    commit_leases();
  }
  report(trainer_->state().last);
  note("idle");
}

void TrainerService::set_up_thread() const { train::set_up_thread(options_.config, world_.get()); }

StepResult TrainerService::step(const std::function<StepRequest()>& read) {
  struct End {
    StepClock& clock;
    ~End() { clock.abandon(); }  // of a step that was not taken
  } end{trainer_->clock()};
  note("fetching");
  trainer_->clock().begin(StepPart::kFetch);
  StepRequest request = read();
  const int64_t done = trainer_->state().step;
  if (request.step == done && done > 0) {
    return {.metrics = trainer_->state().last,
            .checkpoint = last_news_.checkpoint,
            .checkpoint_error = last_news_.error,
            .repeated = true,
            .set_aside = last_news_.aside};
  }
  if (request.step != done + 1)
    fail(ErrorKind::kConflict, "step {} is out of turn: expected {}", request.step, done + 1);
  return train(to_train_on(std::move(request)));
}

TrainerService::Material TrainerService::to_train_on(StepRequest request) {
  std::optional<Material> ahead = take_prepared(request);
  if (request.kind == StepKind::kSft) {
    if (ahead) return *std::move(ahead);
    if (request.sequences.empty())
      fail(ErrorKind::kNotFound, "step {} has no sequences, and none came ahead", request.step);
    return {std::move(request), {}, {}, {}};
  }
  for (const TrainedLease& lease : leases_) {
    if (lease.lease_id != request.lease_id) continue;
    fail(ErrorKind::kConflict, "lease '{}' was trained on in step {}", lease.lease_id, lease.step);
  }
  buffer_ = request.buffer;
  note("fetching " + request.lease_id);
  const int64_t version = request.weight_version;
  Material material = ahead ? *std::move(ahead) : fetched(std::move(request));
  if (version >= 0) {
    trainer_->published(version);
    tell({.what = RankCommand::What::kPublished, .number = version});
  }
  return material;
}

StepResult TrainerService::train(Material material) {
  const StepRequest& request = material.request;
  const bool ahead = material.packed.has_value();
  for (const std::string& sequence : material.aside) log::warn("step {}: set aside: {}", request.step, sequence);
  note(fmt::format("step {}", request.step));
  trainer_->clock().begin(StepPart::kWait, "the weights' publication");
  publisher_->settle();  // the weights are about to change
  {
    const std::optional<DeviceLock::Hold> hold = share_device();
    if (world_) {
      tell({.what = RankCommand::What::kStep,
            .kind = request.kind,
            .batch = {request.step, request.sequences, material.batch.value_or(BatchFigures{})},
            .has_figures = material.batch.has_value()});
    }
    trainer_->train_step(request.kind, request.sequences, material.batch, std::move(material.packed));
    if (device_lock_) kernels::synchronize(trainer_->model().device());
  }
  if (request.kind == StepKind::kRl) leases_.push_back({request.lease_id, request.step, false});
  report(trainer_->state().last);
  metrics_.add("steps_total");
  metrics_.add("tokens_total", trainer_->state().last.tokens);
  settle(false);
  if (options_.config.checkpoint_interval > 0 && request.step % options_.config.checkpoint_interval == 0)
    begin_checkpoint();
  last_news_ = std::exchange(news_, {});
  last_news_.aside = std::move(material.aside);
  return {.metrics = trainer_->state().last,
          .checkpoint = last_news_.checkpoint,
          .checkpoint_error = last_news_.error,
          .set_aside = last_news_.aside,
          .ahead = ahead};
}

void TrainerService::prepare(StepRequest request) {
  const int64_t step = request.step;
  {
    const std::lock_guard lock(mutex_);
    if (step <= visible_.step || step > visible_.step + 2)
      fail(ErrorKind::kConflict, "step {} is none of the two after {}", step, visible_.step);
  }
  std::vector<int64_t> versions;
  if (request.weight_version >= 0) versions.push_back(request.weight_version);
  Material material = request.kind == StepKind::kRl ? fetched(std::move(request))
                                                    : Material{std::move(request), {}, {}, {}};
  material.packed = trainer_->pack_ahead(material.request.kind, material.request.sequences, step, std::move(versions));
  const std::lock_guard lock(prepared_mutex_);
  prepared_.insert_or_assign(step, std::move(material));
}

std::optional<TrainerService::Material> TrainerService::take_prepared(const StepRequest& request) {
  const std::lock_guard lock(prepared_mutex_);
  std::optional<Material> material;
  if (const auto found = prepared_.find(request.step); found != prepared_.end()) {
    const StepRequest& ahead = found->second.request;
    if (request.sequences.empty() && ahead.kind == request.kind && ahead.lease_id == request.lease_id)
      material = std::move(found->second);
  }
  prepared_.erase(prepared_.begin(), prepared_.upper_bound(request.step));
  return material;
}

std::optional<DeviceLock::Hold> TrainerService::share_device() {
  if (!device_lock_) return std::nullopt;
  trainer_->clock().begin(StepPart::kWait, "the device");
  return device_lock_->shared();
}

// Our buffer answers in binary; one that has only the JSON form is understood too.
SequenceBatch TrainerService::fetch_lease(const StepRequest& request) {
  const std::string url = request.buffer + lease_path(request.lease_id);
  net::ClientOptions options = client_options(options_);
  options.headers["accept"] = fmt::format("{}, application/json;q=0.5", kSequencesContentType);
  const net::Response reply = buffer_client_.request("GET", url, "", "", &options).value();
  if (reply.status / 100 != 2) {
    const Error error = net::error_of(reply, "GET " + url);
    if (error.kind() != ErrorKind::kConflict) throw error;
    fail(ErrorKind::kConflict,
         "step {} was trained and is in a checkpoint that is not in {} any more ({}): put its folder step-{:08} or a "
         "later one back, or begin again in a new folder",
         request.step, options_.config.checkpoint, error.what(), request.step);
  }
  if (reply.content_type.starts_with(kSequencesContentType)) return batch_from_binary(reply.body);
  return batch_of_lease_json(parse_json(reply.body, "GET " + url));
}

TrainerService::Material TrainerService::fetched(StepRequest request) {
  SequenceBatch leased = fetch_lease(request);
  Material material{std::move(request), leased.figures, {}, {}};
  // One sequence that no micro-batch can hold must not end a run that would meet it again after every restart.
  std::erase_if(leased.sequences, [&](const TrainSequence& sequence) {
    const auto length = static_cast<int64_t>(sequence.tokens.size());
    if (length <= options_.config.max_tokens_per_micro_batch) return false;
    material.aside.push_back(fmt::format("trajectory {}: {} tokens, max_tokens_per_micro_batch is {}",
                                         sequence.trajectory_id, length, options_.config.max_tokens_per_micro_batch));
    return true;
  });
  material.request.sequences = std::move(leased.sequences);
  return material;
}

// With those that are committed up to a number: the rest need not be refused by name any more.
std::vector<TrainedLease> TrainerService::kept_leases() {
  const size_t committed = std::count_if(leases_.begin(), leases_.end(),
                                         [](const TrainedLease& lease) { return lease.committed; });
  size_t forget = committed > kRememberedLeases ? committed - kRememberedLeases : 0;
  std::erase_if(leases_, [&](const TrainedLease& lease) { return lease.committed && forget > 0 && forget-- > 0; });
  return leases_;
}

void TrainerService::begin_checkpoint() {
  settle(true);  // one at a time: disks that are slower than the steps between two slow the steps down
  note("copying what the checkpoint holds");
  const auto started = Clock::now();
  writing_step_ = trainer_->state().step;
  try {
    const bool copied = store_->has_room_for_copies(*trainer_, world_ ? world_->ranks_here() : 1);
    const auto others = others_for(RankCommand::What::kCheckpoint, copied);
    if (copied) store_->save_behind(*trainer_, kept_leases(), [this] { written_(); }, others);
    else checkpoint_is_at(store_->save(*trainer_, kept_leases(), others), writing_step_);
  } catch (const std::exception& error) {
    checkpoint_failed(error.what());
  }
  metrics_.set("checkpoint_stall_seconds", seconds_since(started));
}

void TrainerService::settle(bool wait) {
  if (!store_) return;
  try {
    if (const auto path = store_->collect(wait)) checkpoint_is_at(*path, writing_step_);
  } catch (const std::exception& error) {  // the steps are done and the old checkpoint stands: say so and go on
    checkpoint_failed(error.what());
  }
}

void TrainerService::checkpoint_is_at(const fs::path& path, int64_t step) {
  news_.checkpoint = checkpoint_path_ = path;
  checkpoint_step_ = step;
  checkpoint_error_.clear();
  metrics_.set("checkpoint_step", static_cast<double>(step));
  commit_leases();
}

void TrainerService::checkpoint_failed(const std::string& why) {
  log::error("checkpoint of step {}: {}", writing_step_, why);
  checkpoint_error_ = why;
  news_.error = fmt::format("step {}: {}", writing_step_, why);
  metrics_.add("checkpoint_failures_total");
}

int64_t TrainerService::uncommitted_leases() const {
  return std::count_if(leases_.begin(), leases_.end(), [](const TrainedLease& lease) { return !lease.committed; });
}

void TrainerService::tell(RankCommand command) {
  if (world_) world_->tell(to_bytes(command));
}

const model::Model& TrainerService::whole_model() {
  tell({.what = RankCommand::What::kGiveModel});
  return trainer_->whole_model();
}

std::shared_ptr<OtherRanks> TrainerService::others_for(RankCommand::What what, bool copied) {
  if (!world_) return nullptr;
  tell({.what = what, .number = ++folders_, .copied = copied});
  return std::make_shared<OtherRanks>(*world_, folders_);
}

TensorChecksums TrainerService::write_model(const fs::path& folder) {
  return export_model(model_of(*trainer_, others_for(RankCommand::What::kExport)), options_.config.model, folder);
}

// Only after the checkpoint that holds them: a lease that is not committed is given again, one that is never is.
void TrainerService::commit_leases() {
  if (buffer_.empty()) return;  // the next step says where it is
  for (TrainedLease& lease : leases_) {
    if (lease.committed || lease.step > checkpoint_step_) continue;
    const std::string url = buffer_ + lease_path(lease.lease_id, "commit");
    const auto reply = buffer_client_.post_json(url, {{"step", lease.step}});
    lease.committed = reply.ok();
    if (reply.ok()) continue;
    const Error& error = reply.error();
    log::warn("lease '{}' of step {} is not committed yet, tried again after the next checkpoint: {}", lease.lease_id,
              lease.step, error.what());
    const bool of_this_one = error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kConflict;
    if (!of_this_one) return;  // the next ones would fail in the same way, each after its own wait
  }
}

void TrainerService::expect(int64_t step) const {
  if (step != steps_done()) fail(ErrorKind::kConflict, "these are the weights of step {}, not {}", steps_done(), step);
}

fs::path TrainerService::save(const std::string& path) {
  check_weights(*trainer_);
  if (!path.empty()) {
    if (fs::exists(path)) fail(ErrorKind::kConflict, "POST /save: {} is there already", path);
    settle(true);  // the ranks write one checkpoint at a time
    note("saving");
    write_checkpoint(path, contents_of(*trainer_, leases_, others_for(RankCommand::What::kCheckpoint, false)));
    return path;
  }
  if (!store_) fail(ErrorKind::kUsage, "POST /save: the config names no checkpoint folder; give a 'path'");
  settle(true);
  if (checkpoint_step_ == trainer_->state().step) {
    commit_leases();
    return checkpoint_path_;
  }
  note("saving");
  writing_step_ = trainer_->state().step;
  try {
    checkpoint_is_at(store_->save(*trainer_, kept_leases(), others_for(RankCommand::What::kCheckpoint, false)),
                     writing_step_);
  } catch (const std::exception& error) {
    checkpoint_failed(error.what());
    throw;
  }
  return checkpoint_path_;
}

PublishedWeights TrainerService::publish(int64_t version, const std::string& to) {
  check_weights(*trainer_);
  note(fmt::format("publishing version {}", version));
  std::optional<DeviceLock::Hold> hold;
  if (device_lock_) hold.emplace(device_lock_->shared());
  PublishedWeights published = hand_out(version, to);
  note_published(version);
  return published;
}

PublishedWeights TrainerService::hand_out(int64_t version, const std::string& to) {
  if (to == "group") {
    tell({.what = RankCommand::What::kOfferParts, .number = version});
    return offer_->publish(*trainer_, version);
  }
  if (to == "shm") return publisher_->to_shared_memory(whole_model(), version);
  return publisher_->to_folder(version, to, [this](const fs::path& folder) { return write_model(folder); });
}

void TrainerService::push(int64_t version, const std::vector<std::string>& engines, weights::SglangOptions options) {
  constexpr double kPushSeconds = 600;
  check_weights(*trainer_);
  options.api_key = options_.peer_api_key;
  note(fmt::format("publishing version {}", version));
  std::optional<DeviceLock::Hold> hold;
  if (device_lock_) hold.emplace(device_lock_->shared());
  if (!sglang_ || sglang_->urls() != engines || sglang_->options() != options)
    sglang_ = std::make_unique<weights::SglangEngines>(engines, options);
  sglang_->push(whole_model(), version, Deadline::after(kPushSeconds));
  note_published(version);
}

void TrainerService::note_published(int64_t version) {
  trainer_->published(version);
  tell({.what = RankCommand::What::kPublished, .number = version});
  metrics_.set("published_version", static_cast<double>(version));
}

fs::path TrainerService::export_to(const std::string& folder) {
  check_weights(*trainer_);
  note("exporting");
  write_model(folder);
  return folder;
}

void TrainerService::shut_down() {
  struct End {
    TrainerService& service;
    ~End() { service.tell({.what = RankCommand::What::kEnd}); }
  } end{*this};
  settle(true);
  const int64_t step = trainer_->state().step;
  if (!store_ || trainer_->broken() || step <= std::max<int64_t>(checkpoint_step_, 0)) return;
  if (!options_.config.may_stop_at(step)) {
    log::info("step {} is not saved: a stop saves every {} steps, and the others are trained again", step,
              options_.config.stop_interval);
    return;
  }
  save("");
  log::info("saved {}", checkpoint_path_);
}

void TrainerService::report(const StepMetrics& metrics) {
  if (metrics.step == 0) return;
  metrics_.set("step", static_cast<double>(metrics.step));
  for_each_figure(metrics, [&](const std::string& name, double value) {
    metrics_.set(fmt::format("last_step{{figure=\"{}\"}}", name), value);
  });
}

void TrainerService::note(const std::string& activity) {
  const TrainerState& state = trainer_->state();
  const std::lock_guard lock(mutex_);
  visible_.step = state.step;
  visible_.checkpoint_step = checkpoint_step_;
  visible_.uncommitted_leases = uncommitted_leases();
  visible_.activity = activity;
  visible_.checkpoint = checkpoint_path_;
  visible_.checkpoint_error = checkpoint_error_;
  visible_.weight_versions = state.weight_versions;
  visible_.broken = trainer_->broken();
  visible_.since = unix_seconds();
  visible_.last = state.last;
}

Json TrainerService::status() const {
  const auto standing = trainer_->clock().standing();
  const std::lock_guard lock(mutex_);
  Json json = {{"step", visible_.step},
               {"expected_step", visible_.step + 1},
               {"checkpoint_step", visible_.checkpoint_step},
               {"checkpoint", visible_.checkpoint},
               {"state", visible_.broken ? "failed" : visible_.activity},
               {"since", visible_.since},
               {"weight_versions", visible_.weight_versions},
               {"uncommitted_leases", visible_.uncommitted_leases}};
  if (standing) json["part"] = standing->part;
  if (!visible_.checkpoint_error.empty()) json["checkpoint_error"] = visible_.checkpoint_error;
  if (visible_.last.step > 0) json["last"] = to_json(visible_.last);
  return json;
}

TrainerService::Health TrainerService::health() const {
  const auto standing = trainer_->clock().standing();
  const std::lock_guard lock(mutex_);
  if (visible_.broken && visible_.activity == "idle") {
    return {net::Colour::kRed, fmt::format("the step after {} failed halfway: restart with --resume", visible_.step)};
  }
  if (const double limit = options_.config.watchdog_s; standing && limit > 0 && standing->seconds > limit) {
    return {net::Colour::kRed, fmt::format("{} hangs: {} has not moved on for {:.0f} s (watchdog_s {})",
                                           visible_.activity, standing->part, standing->seconds, limit)};
  }
  if (!visible_.checkpoint_error.empty())
    return {net::Colour::kYellow, "the last checkpoint failed: " + visible_.checkpoint_error};
  return {net::Colour::kGreen, visible_.activity};
}

}  // namespace tritonforge::train
