#include "weights/receive.h"

#include <future>

#include "base/error.h"
#include "base/log.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"
#include "model/weights.h"
#include "net/address.h"
#include "net/wire.h"
#include "weights/relay.h"

namespace tritonforge::weights {
namespace {

constexpr int kFruitlessRounds = 4;  // one after another, until it is given up
constexpr double kAskSeconds = 30;

at::ScalarType dtype_of(const GroupedWeights& group) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    if (group.dtype == model::dtype_name(type)) return type;
  }
  fail(ErrorKind::kUsage, "published weights: group: dtype '{}'{}", group.dtype,
       nearest_hint(group.dtype, {"float32", "bfloat16"}));
}

// What comes from each source, and how far that is.
class Streams {
 public:
  Streams(const model::Parts& model, const GroupedWeights& group, const std::string& where)
      : where_(where),
        device_(model.first().device()),
        dtype_(dtype_of(group)),
        nccl_(group.nccl && device_.is_cuda()) {
    const std::string plan = plan_checksum(model.config());
    if (plan != group.plan)
      fail(ErrorKind::kCorrupt, "{}: the weights are of another model: names and shapes {}, this one's are {}", where,
           group.plan, plan);
    plan_ = transfer_plan(model.config(), {group.tp, group.pp, group.pp_chunks});
    for (const auto& pieces : plan_) {
      const int64_t bytes = stream_bytes(pieces, dtype_);
      streams_.push_back(stream_memory(bytes, nccl_ ? device_ : at::kCPU));
      have_.push_back(0);
    }
  }
  bool nccl() const { return nccl_; }
  const std::vector<int64_t>& have() const { return have_; }
  bool whole() const {
    return std::ranges::equal(have_, streams_, {}, {}, [](const at::Tensor& stream) { return stream.numel(); });
  }

  // What each source has from round.from on, all at once. Throws the first failure once all have ended.
  void take_part(const Round& round, const DeskPlace& desk, double stall_s) {
    std::vector<std::future<void>> parts;
    for (size_t source = 0; source < streams_.size(); ++source)
      parts.push_back(std::async(std::launch::async, [&, source] { pass(source, round, desk, stall_s); }));
    std::exception_ptr first;
    for (auto& part : parts) {
      try {
        part.get();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

  // The streams' pieces go to the model as they are, or are put together when they are rounded. Of a model in parts the
  // whole tensors are put together here, in the host's memory, and each rank takes its part of them.
  StagedWeights staged(const model::Parts& model, const TensorChecksums& expected) const {
    StagedWeights staged;
    const bool one = model.size() == 1;
    const auto sharded = model.tensors();
    std::map<std::string, at::Tensor> targets;  // the model's own, or one that is put together
    std::map<std::string, StagedWeights::Rounding> roundings;
    for (const model::ShardedTensor& tensor : sharded) {
      if (tensor.fp8()) roundings.emplace(tensor.name, StagedWeights::Rounding{tensor, {}});
      else targets.emplace(tensor.name, one ? tensor.tensors.front() : at::empty(tensor.sizes(), dtype_));
    }
    ChecksumShares sums;
    for (size_t source = 0; source < plan_.size(); ++source) {
      const auto tensors = piece_tensors(plan_[source], dtype_, streams_[source]);
      add_checksums(plan_[source], tensors, sums);
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Piece& piece = plan_[source][i];
        if (const auto rounding = roundings.find(piece.name); rounding != roundings.end()) {
          rounding->second.parts.push_back({tensors[i], piece.dim, piece.begin});
          continue;
        }
        at::Tensor part = piece.of(targets.at(piece.name));
        if (one) staged.copies.emplace_back(std::move(part), tensors[i]);
        else part.copy_(tensors[i]);
      }
    }
    compare_weights(where_, checksums_of(sums), expected);
    for (const model::ShardedTensor& tensor : sharded) {
      if (tensor.fp8()) staged.roundings.push_back(std::move(roundings.at(tensor.name)));
      else if (!one) staged.add(tensor, targets.at(tensor.name));
    }
    const bool on_host = std::ranges::all_of(streams_, [](const at::Tensor& stream) { return stream.is_cpu(); });
    if (one && device_.is_cuda() && on_host && dtype_ == model.dtype() && kernels::has_gpu_kernels()) {
      gpu::check_cuda(gpu::open_cuda_library().set_device(device_.index()));
      staged.uploads.emplace(device_.index(), std::make_shared<kernels::Upload>());
    }
    return staged;
  }

 private:
  void pass(size_t source, const Round& round, const DeskPlace& desk, double stall_s) {
    const int64_t from = round.from.at(source);
    pass_stream(desk, round, static_cast<int64_t>(source), streams_[source], device_, stall_s,
                [&](int64_t bytes) { have_[source] = std::max(have_[source], from + bytes); });
  }

  const std::string where_;
  const at::Device device_;
  const at::ScalarType dtype_;
  const bool nccl_;
  std::vector<std::vector<Piece>> plan_;
  std::vector<at::Tensor> streams_;
  std::vector<int64_t> have_;  // each written by its own thread
};

}  // namespace

std::string url_of(const DeskPlace& desk) { return fmt::format("http://{}:{}", desk.host, desk.port); }

Caller::Caller(DeskPlace desk)
    : desk_(std::move(desk)),
      client_(std::make_unique<net::HttpClient>(
          net::ClientOptions{.timeout_s = kAskSeconds, .api_key = desk_.key, .headers = {}})) {}

std::optional<Round> Caller::ask(const Member& member) const {
  const std::string what = "POST " + url_of(desk_) + "/join";
  const auto reply = client_->post(url_of(desk_) + "/join", to_json(member));
  if (!reply.ok()) throw Error(ErrorKind::kNotFound, reply.error().what());
  if (reply->status / 100 != 2) throw net::error_of(*reply, what);
  return round_from_json(parse_json(reply->body, what), what);
}

void pass_stream(const DeskPlace& desk, const Round& round, int64_t source, const at::Tensor& stream, at::Device device,
                 double stall_s, const std::function<void(int64_t)>& arrived) {
  const int64_t from = round.from.at(static_cast<size_t>(source));
  if (from >= stream.numel()) return;
  parallel::Meeting meeting(url_of(desk), desk.key);
  const RelayPlace place{.meeting = meeting,
                         .name = fmt::format("{}-{}", round.name, source),
                         .place = round.place,
                         .size = round.size,
                         .host = net::own_address_towards(desk.host),
                         .stall_s = stall_s};
  make_relay(place, round.nccl, device)->pass_all(stream.narrow(0, from, stream.numel() - from), arrived);
}

StagedWeights receive_weights(const model::Parts& model, const PublishedWeights& weights, const std::string& key,
                              const std::string& id, Deadline deadline, double stall_s) {
  const DeskPlace place{weights.group->host, weights.group->port, key};
  const std::string where = fmt::format("weights {} of {}:{}", weights.version, place.host, place.port);
  const auto start = Clock::now();
  Streams streams(model, *weights.group, where);
  const Caller desk(place);
  int fruitless = 0, rounds = 0;
  while (!streams.whole()) {
    if (deadline.expired()) fail(ErrorKind::kTimeout, "{}: not all here in time, after {} rounds", where, rounds);
    const std::vector<int64_t> before = streams.have();
    const auto round = desk.ask({.id = id, .version = weights.version, .nccl = streams.nccl(), .have = before});
    if (!round) continue;
    ++rounds;
    try {
      streams.take_part(*round, place, stall_s);
    } catch (const Error& error) {
      fruitless = streams.have() == before ? fruitless + 1 : 0;
      if (fruitless == kFruitlessRounds) throw;
      log::warn("{}; in the next round again", error.what());
    }
  }
  log::info("{}: all here in {:.3f} s, {} rounds", where, seconds_since(start), rounds);
  return streams.staged(model, weights.checksums);
}

}  // namespace tritonforge::weights
