#include "train/checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/config.h"
#include "base/file_lock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/pending_folder.h"
#include "contract/weights.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"
#include "train/numbered.h"
#include "train/optimizer_files.h"
#include "train/weight_shards.h"

namespace tritonforge::train {
namespace {

constexpr int64_t kFormat = 2;  // 1 had no checksums

Json last_step_json(const StepMetrics& metrics) {
  return {{"step", metrics.step}, {"kind", name_of(metrics.kind)}, {"values", figures_json(metrics)}};
}

void copy_durably(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) fail(ErrorKind::kUnavailable, "cannot write {}: {}", to.string(), error.message());
  fsync_path(to);
}

// What else lies there is somebody's own, a copy or what /save was told to write.
bool is_step(const fs::directory_entry& entry) {
  return entry.is_directory() && is_numbered(entry.path().filename().string(), "step-");
}

// What sits beside the weights of a Hugging Face folder.
void copy_tokenizer(const fs::path& source, const fs::path& folder) {
  if (!fs::is_directory(source)) {
    tokenizer::Tokenizer::load(source).save(folder);
    return;
  }
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"}) {
    if (fs::exists(source / name)) copy_durably(source / name, folder / name);
  }
}

// Builds a folder under a temporary name with `fill`, syncs it and puts it in place of `folder`.
template <typename Fill>
void write_folder(const fs::path& folder, const Fill& fill) {
  const PendingFolder pending(folder);
  try {
    fill(pending.path());
    pending.put_in_place();
  } catch (const fs::filesystem_error& error) {
    fail(ErrorKind::kUnavailable, "cannot write {}: {}", folder.string(), error.code().message());
  }
}

Json read_state(const fs::path& path) {
  const fs::path file = path / "trainer.json";
  try {
    Json state = parse_json(read_file(file), file.string());
    if (require<int64_t>(state, "format", file.string()) != kFormat) {
      fail(ErrorKind::kUnsupported, "{}: format {} is not {}", file.string(), state["format"].dump(), kFormat);
    }
    return state;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    throw Error(ErrorKind::kCorrupt, error.what());
  }
}

// What a Hugging Face folder has, checksums beside it, and what of the optimizer's state there is.
TensorChecksums write_model(const ModelContents& contents, const fs::path& source, const fs::path& folder) {
  const auto own = [&] { return write_part(contents.part, folder); };
  const Json sums = contents.others ? contents.others->write(folder, own) : own();
  model::write_model_config(contents.shape, contents.dtype, folder);
  // Other files of tensors are not the model's, and who reads it must know.
  const model::WeightFiles& files = contents.part.weights;
  if (files.size() > 1 || contents.part.optimizer) model::write_weight_index(files, folder);
  copy_tokenizer(source, folder);
  write_file_atomic(folder / kChecksumsFile, sums.dump(1) + "\n");
  return sums.get<TensorChecksums>();
}

CheckpointContents contents_with(RankPart part, Trainer& trainer, const std::vector<TrainedLease>& leases,
                                 std::shared_ptr<OtherRanks> others) {
  return {{trainer.shape(), trainer.model().dtype(), std::move(part), std::move(others)},
          trainer.config(),
          trainer.state(),
          leases};
}

// Weights as they were read against what was written. Of a model in parts each rank looks at a share of the files, so
// that together they read them once.
void verify(Trainer& trainer, const Json& written, const fs::path& path) {
  const parallel::ParallelDims& dims = trainer.config().parallel;
  const at::ScalarType dtype = trainer.model().dtype();
  const auto read = dims.tp * dims.pp == 1
                        ? model::weight_checksums(trainer.model())
                        : model::stored_checksums(path,
                                                  shard_of(shard_files(trainer.shape(), dtype, dims), trainer.rank()));
  for (const auto& [name, sum] : read) {
    if (written.contains(name) && written[name] == sum) continue;
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' has the checksum {}, {} was written: the file is damaged",
         model::file_of_tensor(path, name), name, sum, written.contains(name) ? written[name].dump() : "none");
  }
}

}  // namespace

TensorChecksums export_model(const ModelContents& model, const fs::path& source, const fs::path& folder) {
  TensorChecksums sums;
  write_folder(folder, [&](const fs::path& temporary) { sums = write_model(model, source, temporary); });
  return sums;
}

ModelContents model_of(Trainer& trainer, std::shared_ptr<OtherRanks> others) {
  return {trainer.shape(), trainer.model().dtype(), part_of(trainer, /*with_optimizer=*/false), std::move(others)};
}

CheckpointContents contents_of(Trainer& trainer, const std::vector<TrainedLease>& leases,
                               std::shared_ptr<OtherRanks> others) {
  return contents_with(part_of(trainer, /*with_optimizer=*/true), trainer, leases, std::move(others));
}

void write_checkpoint(const fs::path& path, const CheckpointContents& contents) {
  const TrainerState& state = contents.state;
  Json lease_list = Json::array();
  for (const TrainedLease& lease : contents.leases) {
    lease_list.push_back({{"lease_id", lease.lease_id}, {"step", lease.step}, {"committed", lease.committed}});
  }
  const Json json = {{"format", kFormat},
                     {"step", state.step},
                     {"seed", contents.config.seed},
                     {"weight_versions", state.weight_versions},
                     {"last", last_step_json(state.last)},
                     {"leases", lease_list}};
  write_folder(path, [&](const fs::path& temporary) {
    write_model(contents.model, contents.config.model, temporary);
    write_file_atomic(temporary / "config.yaml", dump_config(contents.config));
    write_file_atomic(temporary / "trainer.json", json.dump(2) + "\n");
  });
}

std::unique_ptr<Trainer> resume_trainer(const TrainConfig& config, const fs::path& path, parallel::World* world) {
  auto trainer = make_trainer(config, /*weights=*/path, world);
  const Json json = read_state(path);
  const std::string where = (path / "trainer.json").string();
  const Json sums = parse_json(read_file(path / kChecksumsFile), (path / kChecksumsFile).string());
  OptimizerFiles files(path, sums);
  const at::NoGradGuard no_grad;
  for (const StatePiece& piece : trainer->optimizer().state()) files.read(piece);
  verify(*trainer, sums, path);
  TrainerState state;
  state.step = require<int64_t>(json, "step", where);
  state.weight_versions = require<std::vector<int64_t>>(json, "weight_versions", where);
  const Json last = require<Json>(json, "last", where);
  state.last.step = require<int64_t>(last, "step", where);
  if (state.last.step > 0) {
    state.last.kind = from_name<StepKind>(require<std::string>(last, "kind", where), "kind");
    read_figures(require<Json>(last, "values", where), state.last, where);
  }
  trainer->restore(std::move(state));
  return trainer;
}

std::vector<TrainedLease> checkpoint_leases(const fs::path& path) {
  const Json json = read_state(path);
  const std::string where = (path / "trainer.json").string();
  std::vector<TrainedLease> leases;
  for (const Json& lease : require<Json>(json, "leases", where)) {
    leases.push_back({require<std::string>(lease, "lease_id", where), require<int64_t>(lease, "step", where),
                      require<bool>(lease, "committed", where)});
  }
  return leases;
}

CheckpointStore::CheckpointStore(fs::path folder, int64_t keep) : folder_(std::move(folder)), keep_(keep) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(ErrorKind::kUnavailable, "cannot create {}: {}", folder_.string(), error.message());
  const fs::path lock = folder_ / ".lock";
  lock_ = Descriptor(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock_.get() < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", lock.string(), std::strerror(errno));
  if (!lock_file(lock_.get(), LOCK_EX | LOCK_NB, folder_))
    fail(ErrorKind::kUnavailable, "{} is in use by another trainer (pid {})", folder_.string(), read_file(lock));
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock_.get(), 0) != 0 ||
      ::pwrite(lock_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    log::warn("cannot note the pid in {}: {}", lock.string(), std::strerror(errno));
  }
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) fs::remove_all(entry.path());
  }
  if (!fs::exists(folder_ / "latest")) name_latest_again();
  const fs::path newest = latest();
  if (newest.empty()) return;
  // What was whole when its trainer was killed and never became the latest: its step comes again.
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (is_step(entry) && entry.path().filename() > newest.filename()) fs::remove_all(entry.path());
  }
  // One that was killed before it removed the old ones, again and again, must not fill the disk.
  prune(newest);
}

CheckpointStore::~CheckpointStore() {
  if (writing_.valid()) writing_.wait();
}

fs::path CheckpointStore::latest() const {
  if (!fs::exists(folder_ / "latest")) return {};
  std::string name = read_file(folder_ / "latest");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  const fs::path path = folder_ / name;
  if (!fs::exists(path / "trainer.json"))
    fail(ErrorKind::kCorrupt, "{}/latest names {}, which holds no checkpoint", folder_.string(), path.string());
  return path;
}

// A folder without .tmp- in its name was whole before it got that name.
void CheckpointStore::name_latest_again() const {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (is_step(entry) && fs::exists(entry.path() / "trainer.json")) newest = std::max(newest, entry.path());
  }
  if (newest.empty()) return;
  log::warn("{} is missing: it names {} again, the newest checkpoint there", (folder_ / "latest").string(),
            newest.filename().string());
  write_file_atomic(folder_ / "latest", newest.filename().string() + "\n");
}

fs::path CheckpointStore::save(Trainer& trainer, const std::vector<TrainedLease>& leases,
                               std::shared_ptr<OtherRanks> others) {
  TF_CHECK(!writing_.valid(), "two checkpoints at a time");
  return write(contents_of(trainer, leases, std::move(others)));
}

bool CheckpointStore::has_room_for_copies(Trainer& trainer, int64_t ranks) const {
  if (snapshot_.taken() || Snapshot::bytes(trainer) * ranks <= kernels::free_memory(at::kCPU) / 2) return true;
  log::warn("step {}: the host has no memory for a copy of weights and optimizer: the checkpoint stops the trainer",
            trainer.state().step);
  return false;
}

void CheckpointStore::save_behind(Trainer& trainer, const std::vector<TrainedLease>& leases,
                                  std::function<void()> written, std::shared_ptr<OtherRanks> others) {
  TF_CHECK(!writing_.valid(), "two checkpoints at a time");
  CheckpointContents contents = contents_with(snapshot_.take(trainer), trainer, leases, std::move(others));
  writing_ = std::async(std::launch::async, [this, contents = std::move(contents), written] {
    struct Tell {
      const std::function<void()>& written;
      ~Tell() { written(); }
    } tell{written};
    return write(contents);
  });
}

std::optional<fs::path> CheckpointStore::collect(bool wait) {
  if (!writing_.valid()) return std::nullopt;
  if (!wait && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return writing_.get();
}

fs::path CheckpointStore::write(const CheckpointContents& contents) const {
  const fs::path path = folder_ / fmt::format("step-{:08}", contents.state.step);
  write_checkpoint(path, contents);
  write_file_atomic(folder_ / "latest", path.filename().string() + "\n");
  prune(path);
  return path;
}

void CheckpointStore::prune(const fs::path& newest) const {
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (is_step(entry) && entry.path() != newest) others.push_back(entry.path());
  }
  std::sort(others.begin(), others.end());
  for (int64_t i = 0; i < static_cast<int64_t>(others.size()) - (keep_ - 1); ++i) {
    std::error_code error;
    fs::remove_all(others[i], error);
    if (error) log::warn("cannot remove the old checkpoint {}: {}", others[i].string(), error.message());
  }
}

}  // namespace tritonforge::train
