#include "engine/gpu_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/attention_paged.h"
#include "engine/batch.h"
#include "kernels/device.h"
#include "kernels/gpu/tensors.h"
#include "model/gpu_support.h"

namespace tritonforge::engine {
namespace {

using gpu::Bf16;
using gpu::bits;
using gpu::check_cuda;
using gpu::GpuGraph;
using gpu::GpuRange;

constexpr int64_t kTunedTokens = 1024;  // of a step that is not full
// From so many rows of prompts on, products add to the residual stream themselves: the norm behind them reads one
// tensor less. Decodes have too few rows for that to show.
constexpr int64_t kAddingRows = 2048;
constexpr size_t kArenas = 3;         // steps whose numbers may be on their way to the device
constexpr size_t kStepsInFlight = 2;  // the one that runs and the one queued behind it
constexpr int64_t kGraphs = 128;      // shapes
// Measured (bench/engine_memory): 23 graphs of 36 layers took 20 MiB, the code of kernels, cuBLASLt's too, 110 MiB.
constexpr int64_t kGraphBytesPerLayer = int64_t{25} << 10, kCodeBytes = int64_t{112} << 20;

PrefixSharing sharing_of(const EngineOptions& options, const model::ModelConfig& c) {
  if (options.batch_invariant) return {};
  const int64_t block_bytes = kBlockSize * KvCache::bytes_per_token(c, cache_dtype(options, at::kBFloat16)) /
                              c.num_layers;
  return {options.shared_prefix ? gpu::kPrefixColumns / (c.num_heads / c.num_kv_heads) : 0,
          (options.shared_prefix_mib << 20) / block_bytes};
}

// Memory, streams and handles are made on the calling thread's device.
int use_device(at::Device device) {
  check_cuda(gpu::open_cuda_library().set_device(device.index()));
  return device.index();
}

int64_t most_rows(const EngineOptions& options) { return size_class(options.max_running); }

bool is_short(const GpuBatch& step) { return step.tokens <= kTunedTokens; }

}  // namespace

std::string GpuRunner::refusal(const EngineOptions& options, const model::Model& model) {
  if (!options.gpu_kernels) return "they are switched off";
  if (most_rows(options) > 1024) return fmt::format("--max-running {} is beyond 1024", options.max_running);
  return model::gpu_kernels_refusal(model);
}

int64_t GpuRunner::graph_bytes(const EngineOptions& options, const model::ModelConfig& config) {
  return kCodeBytes + (options.cuda_graphs ? kGraphs * kGraphBytesPerLayer * config.num_layers : 0);
}

GpuRunner::GpuRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model, GpuRanks* ranks,
                     int64_t rank)
    : api_(gpu::open_cuda_library()),
      model_(model),
      config_(model.config()),
      device_(use_device(model.device())),
      ranks_(ranks),
      rank_(rank),
      vocab_(config_.vocab_size * (ranks != nullptr ? ranks->size() : 1)),
      graphs_wanted_(options.cuda_graphs),
      tune_wanted_(options.tune_gemms),
      batch_invariant_(options.batch_invariant),
      sharing_(sharing_of(options, config_)),
      full_step_(size_class(sizes.step_tokens)),
      most_draws_(most_rows(options)),
      blocks_(sizes.blocks),
      max_context_(sizes.max_context),
      page_(page_bytes(config_, options.kv_cache_dtype == CacheDtype::kFp8)),
      widened_pages_(widened_pages(options, sizes)),
      buffers_(place_gpu_buffers(options, sizes, config_)),
      gemm_(static_cast<size_t>(kGemmWorkspace)),
      host_cache_(static_cast<size_t>(sizes.host_blocks * config_.num_layers * page_.both())) {
  kernels::synchronize(model.device());  // the weights came on another stream
  TF_CHECK(options.tp == (ranks != nullptr ? ranks->size() : 1), "a runner of {} ranks", options.tp);
  const auto input_bytes = static_cast<size_t>(
      kNumberBytes + gpu_batch_bytes(sizes.step_tokens, options.max_running, sizes.max_context, widened_pages_));
  for (size_t i = 0; i < kArenas; ++i) host_.emplace_back(input_bytes);
  for (size_t i = 0; i < kStepsInFlight; ++i) ring_.emplace_back(static_cast<size_t>(most_rows(options)));
  take_buffers();
  if (tune_wanted_) tune_at_start(most_rows(options));
  check_cuda(api_.stream_synchronize(stream_));
  take_cache();
}

GpuRunner::~GpuRunner() { api_.stream_synchronize(stream_); }

void GpuRunner::fill(const Plan& plan, std::span<const kernels::SampleRow> rows) {
  const GpuRange range("fill");
  check_cuda(api_.set_device(device_));
  HostArena& arena = host_[host_turn_++ % kArenas];
  arena.copied.wait();
  auto* bytes = arena.memory.as<std::byte>();
  number_ += 1 + std::exchange(met_later_, 0);
  std::memcpy(bytes, &number_, sizeof number_);
  batch_ = fill_gpu_batch(plan, rows, vocab_, std::span(bytes, arena.memory.size()).subspan(kNumberBytes), sharing_,
                          widened_pages_);
  asked_.work = nullptr;
  asked_.prompts.clear();
  asked_.rows.assign(rows.begin(), rows.end());
  check_cuda(api_.copy(at<void>(buffers_.inputs), bytes, static_cast<size_t>(kNumberBytes + batch_.bytes), stream_));
  arena.copied.record(stream_);
}

void GpuRunner::forward() {
  const GpuRange range(batch_.decode_only ? "forward: decode" : "forward: prompts");
  // Short prompts come again and again. Between them and full steps there are many sizes, each rarely seen.
  if (tune_wanted_ && is_short(batch_)) tune_layers(batch_.tokens, batch_.decode_only, 1);  // a request waits for this

  const bool repeats = batch_.repeats() && is_short(batch_) && !asked_.scores_prompts();
  Captured* shape = graphs_wanted_ && repeats ? seen_before() : nullptr;
  if (shape != nullptr && shape->graph) {
    launch(shape->graph);
  } else {
    queue_step();
    if (shape != nullptr) capture(*shape);  // while the device computes
  }
  if (asked_.any() && batch_.rows > 0) edit_and_draw();

  // The tokens' way home.
  if (batch_.rows == 0) {
    in_flight_.push_back({nullptr, asked_.any()});
    return;
  }
  Drawn& drawn = ring_[drawn_turn_++ % ring_.size()];
  drawn.rows = batch_.rows;
  drawn.draw_rows = batch_.draw_rows;
  check_cuda(api_.copy(drawn.memory.as<void>(), at<void>(buffers_.results), static_cast<size_t>(batch_.draw_rows * 8),
                       stream_));
  drawn.arrived.record(stream_);
  in_flight_.push_back({&drawn, asked_.any()});
}

// The place of the step's graph from the second step of its shape on. Of more shapes than there may be graphs, the one
// that ran longest ago has to be seen anew.
GpuRunner::Captured* GpuRunner::seen_before() {
  const auto [found, first] = graphs_.try_emplace(GraphKey{batch_.shape(), asked_.any()});
  found->second.used = ++steps_;
  if (!first) return &found->second;
  if (std::ssize(graphs_) <= kGraphs) return nullptr;
  check_cuda(api_.stream_synchronize(stream_));  // it may be what runs
  graphs_.erase(std::ranges::min_element(graphs_, {}, [](const auto& entry) { return entry.second.used; }));
  return nullptr;
}

// What was queued last, once more: that has loaded every kernel.
void GpuRunner::capture(Captured& shape) {
  const GpuRange range("capture");
  check_cuda(api_.capture_begin(stream_));
  gpu::Graph captured = nullptr;
  int64_t nodes = 0;
  try {
    queue_step();
  } catch (...) {
    api_.capture_end(stream_, &captured, &nodes);  // leaves the capture; its own error is the same one
    throw;
  }
  const int error = api_.capture_end(stream_, &captured, &nodes);
  if (error == gpu::kOutOfMemory) {
    log::warn("no memory for another CUDA graph, after {}: steps are launched kernel by kernel", graphs_.size() - 1);
    graphs_wanted_ = false;
    return;
  }
  check_cuda(error);
  shape.graph = GpuGraph(captured, nodes);
  log::debug("a CUDA graph of {} rows, {} blocks wide, {} nodes; {} shapes, {} MiB free", batch_.tokens,
             std::max(batch_.decode_width, batch_.prompt_width), nodes, graphs_.size(),
             kernels::free_memory(model_.device()) >> 20);
}

void GpuRunner::launch(const GpuGraph& graph) {
  graph.launch(stream_);
  ++launches_.graphs;
  launches_.nodes += graph.nodes();
}

std::span<const kernels::Sampled> GpuRunner::draw() {
  const GpuRange range("draw");
  const auto [drawn, asked] = in_flight_.front();
  in_flight_.pop_front();
  sampled_.clear();
  answers_ = asked ? std::move(asked_.answers) : LogitAnswers{};
  if (drawn == nullptr) return {};
  drawn->arrived.wait();
  const auto* tokens = drawn->memory.as<int32_t>();
  const auto* log_probs = drawn->memory.as<float>() + drawn->draw_rows;
  for (int64_t i = 0; i < drawn->rows; ++i) sampled_.push_back({tokens[i], log_probs[i]});
  if (asked) tell_draws(logits(drawn->rows), *asked_.work, asked_.rows, sampled_, answers_);
  return sampled_;
}

void GpuRunner::discard() {
  api_.stream_synchronize(stream_);  // who finds the device broken is step_failed()
  in_flight_.clear();
}

// ---- The step's kernels ----

gpu::GemmArgs GpuRunner::product(void* y, const Bf16* x, const model::Projection& p, int64_t rows, bool fp32) const {
  gpu::GemmArgs args{.y = y,
                     .x = x,
                     .w = bits(p.weight),
                     .bias = bits(p.bias),
                     .m = rows,
                     .n = p.weight.size(0),
                     .k = p.weight.size(1),
                     .fp32_out = fp32,
                     .accumulate = false,
                     .swiglu_scratch = nullptr,
                     .batch_invariant = batch_invariant_};
  if (p.scales.defined()) {
    args.w = nullptr;
    args.fp8 = {static_cast<const uint8_t*>(p.weight.const_data_ptr()), p.scales.const_data_ptr<float>()};
    args.wide = at(buffers_.wide_matrix);
  }
  return args;
}

// What only one rank has is added by add_rms_norm() or here; the ranks' sum is nobody's own.
bool GpuRunner::adds_to_residual(int64_t rows, bool decodes) const {
  return ranks_ == nullptr && !decodes && rows >= kAddingRows;
}

// x += y W^T, or the same into a delta, for add_rms_norm() to add.
gpu::GemmArgs GpuRunner::joining_product(int which, const Rows& rows, const Bf16* y, model::Projection p,
                                         bool adds) const {
  if (rank_ > 0) p.bias.reset();
  gpu::GemmArgs args = product(adds ? rows.x : at(buffers_.deltas[which]), y, p, rows.count);
  args.accumulate = adds;
  return args;
}

gpu::GemmArgs GpuRunner::gate_up_product(const model::LayerWeights& l, int64_t rows) const {
  gpu::GemmArgs args = product(at<void>(buffers_.activated), at(buffers_.normed), l.gate_up(), rows);
  args.swiglu_scratch = at(buffers_.gate_up);
  return args;
}

void GpuRunner::project(void* y, const Bf16* x, const model::Projection& p, int64_t rows, bool fp32) {
  const gpu::GemmArgs args = product(y, x, p, rows, fp32);
  check_cuda(api_.gemm(gemm_, &args, stream_));
}

// Decodes of every size class, full steps of prompts alone and of prompts beside decodes.
void GpuRunner::tune_at_start(int64_t most_rows) {
  constexpr size_t kLayers = 4;
  for (int64_t rows = 1; rows <= most_rows; rows = size_class(rows + 1)) {
    tune_layers(rows, /*decodes=*/true, kLayers);
    tune_head(rows);
  }
  tune_layers(full_step_, /*decodes=*/false, kLayers);
  tune_layers(size_class(full_step_ + 1), /*decodes=*/false, kLayers);
}

// Times the algorithms of the layers' products, once for each count of rows (a second call returns at once), those of
// decodes with overlapping launches, `count` layers one after another. It waits for the device and overwrites
// activations.
void GpuRunner::tune_layers(int64_t rows, bool decodes, size_t count) {
  check_cuda(api_.set_overlap(decodes ? 1 : 0));
  const bool adds = adds_to_residual(rows, decodes);
  const Rows all{rows, at(buffers_.x), at(buffers_.attended)};
  const auto layers = std::span(model_.layers()).first(std::min(model_.layers().size(), count));
  const auto tune = [&](auto product_of) {
    std::vector<gpu::GemmArgs> products;
    std::ranges::transform(layers, std::back_inserter(products), product_of);
    check_cuda(api_.gemm_tune(gemm_, products.data(), static_cast<int>(products.size()), stream_));
  };
  using Layer = model::LayerWeights;
  tune([&](const Layer& l) { return product(at<void>(buffers_.qkv), at(buffers_.normed), l.qkv(), rows); });
  tune([&](const Layer& l) { return joining_product(0, all, all.attended, l.o(), adds); });
  tune([&](const Layer& l) { return gate_up_product(l, rows); });
  tune([&](const Layer& l) { return joining_product(1, all, at(buffers_.activated), l.down(), adds); });
}

void GpuRunner::tune_head(int64_t rows) {
  const auto args = product(at<void>(buffers_.logits_here), at(buffers_.normed), {.weight = model_.lm_head()}, rows,
                            true);
  check_cuda(api_.gemm_tune(gemm_, &args, 1, stream_));
}

void GpuRunner::queue_step() {
  check_cuda(api_.set_overlap(is_short(batch_)));  // longer ones gain nothing: their kernels outlast any launch
  queue_layers();
  score_prompts();
  if (batch_.rows == 0) return;
  queue_logits();
  if (!asked_.any()) queue_samples();
}

void GpuRunner::queue_layers() {
  const auto& layers = model_.layers();
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const int64_t rows = batch_.tokens, hidden = config_.hidden_size;
  auto *x = at(buffers_.x), *normed = at(buffers_.normed);

  check_cuda(api_.pick_ids(input<int32_t>(batch_.ids), at<int32_t>(buffers_.results), input<int32_t>(batch_.sources),
                           batch_.decode_rows, stream_));
  embed();
  check_cuda(api_.rms_norm(normed, x, bits(layers.front().input_norm), rows, hidden, eps, stream_));
  for (size_t i = 0; i < layers.size(); ++i) {
    const model::LayerWeights& l = layers[i];
    const at::Tensor& next_norm = i + 1 < layers.size() ? layers[i + 1].input_norm : model_.final_norm();
    project(at<void>(buffers_.qkv), normed, l.qkv(), rows);
    queue_attention(i);
    const Rows on = i + 1 < layers.size() ? Rows{rows, x, at(buffers_.attended)} : last_rows();
    if (on.count == 0) return;
    join(i, 0, on, on.attended, l.o(), l.post_attention_norm);
    const gpu::GemmArgs gate_up = gate_up_product(l, on.count);
    check_cuda(api_.gemm(gemm_, &gate_up, stream_));
    join(i, 1, on, at(buffers_.activated), l.down(), next_norm);
  }
}

// Of the last layer all tokens have keys and values; what comes behind them is read where a row draws, or a prompt is
// scored. The rows that draw move together, into buffers that are free by then.
GpuRunner::Rows GpuRunner::last_rows() {
  if (batch_.decode_only || asked_.scores_prompts()) return {batch_.tokens, at(buffers_.x), at(buffers_.attended)};
  const Rows rows{batch_.draw_rows, at(buffers_.drawn_hidden), at(buffers_.qkv)};
  const auto gather = [&](Bf16* to, const Bf16* from, int64_t width) {
    check_cuda(api_.gather_rows(to, from, input<int32_t>(batch_.sample_rows), rows.count, width, stream_));
  };
  gather(at(buffers_.drawn_hidden), at(buffers_.x), config_.hidden_size);
  gather(at(buffers_.qkv), at(buffers_.attended), config_.num_heads * config_.head_dim);
  return rows;
}

void GpuRunner::embed() {
  const auto* ids = input<int32_t>(batch_.ids);
  if (ranks_ == nullptr) {
    check_cuda(
        api_.embed(at(buffers_.x), bits(model_.embed_tokens()), ids, batch_.tokens, config_.hidden_size, stream_));
    return;
  }
  gpu::EmbedRanksArgs args{.out = at(buffers_.x),
                           .tables = {},
                           .ids = ids,
                           .tokens = batch_.tokens,
                           .hidden = config_.hidden_size,
                           .table_rows = config_.vocab_size};
  for (int64_t rank = 0; rank < ranks_->size(); ++rank) args.tables[rank] = ranks_->table(rank);
  check_cuda(api_.embed_ranks(&args, stream_));
}

// place: in the order of a step.
gpu::RankMeeting GpuRunner::meeting(int64_t place, uint32_t later) const {
  gpu::RankMeeting meeting{.flags = {},
                           .number = at<uint32_t>(buffers_.inputs),
                           .later = later,
                           .stop = ranks_->stop(),
                           .rank = static_cast<int32_t>(rank_),
                           .ranks = static_cast<int32_t>(ranks_->size())};
  for (int64_t rank = 0; rank < ranks_->size(); ++rank)
    meeting.flags[rank] = reinterpret_cast<uint32_t*>(ranks_->buffers(rank) + buffers_.meetings) +
                          place * ranks_->size();
  return meeting;
}

void GpuRunner::join(size_t layer, int which, const Rows& rows, const Bf16* y, const model::Projection& p,
                     const at::Tensor& norm) {
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const int64_t hidden = config_.hidden_size;
  Bf16* normed = at(buffers_.normed);
  const gpu::GemmArgs args = joining_product(which, rows, y, p, adds_to_residual(rows.count, batch_.decode_only));
  check_cuda(api_.gemm(gemm_, &args, stream_));
  if (ranks_ != nullptr) {
    gpu::JoinRanksArgs joined{.meeting = meeting(2 * static_cast<int64_t>(layer) + which),
                              .deltas = {},
                              .out = normed,
                              .x = rows.x,
                              .weight = bits(norm),
                              .rows = rows.count,
                              .d = hidden,
                              .eps = eps};
    for (int64_t rank = 0; rank < ranks_->size(); ++rank)
      joined.deltas[rank] = reinterpret_cast<const Bf16*>(ranks_->buffers(rank) + buffers_.deltas[which]);
    check_cuda(api_.join_ranks(&joined, stream_));
  } else if (args.accumulate) {
    check_cuda(api_.rms_norm(normed, rows.x, bits(norm), rows.count, hidden, eps, stream_));
  } else {
    check_cuda(
        api_.add_rms_norm(normed, rows.x, at(buffers_.deltas[which]), bits(norm), rows.count, hidden, eps, stream_));
  }
}

// The new tokens' keys and values go into the cache; then decodes and prompts attend to it, a launch each.
void GpuRunner::queue_attention(size_t layer) {
  const model::LayerWeights& l = model_.layers()[layer];
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  const gpu::RopeCacheArgs rope{.qkv = at(buffers_.qkv),
                                .q = at(buffers_.q),
                                .cache = cache_[layer],
                                .q_norm = bits(l.q_norm),
                                .k_norm = bits(l.k_norm),
                                .rope = at<float>(buffers_.rope),
                                .positions = input<int32_t>(batch_.positions),
                                .slots = input<int32_t>(batch_.slots),
                                .tokens = batch_.tokens,
                                .heads = config_.num_heads,
                                .kv_heads = config_.num_kv_heads,
                                .head_dim = config_.head_dim,
                                .eps = static_cast<float>(config_.rms_norm_eps)};
  check_cuda(api_.rope_cache(&rope, stream_));
  if (batch_.decodes > 0) queue_decode_attention(layer, scale);
  if (batch_.prompts > 0) queue_prompt_attention(layer, scale);
}

gpu::PrefillAttentionArgs GpuRunner::prefill_args(size_t layer, float scale) const {
  return {.q = at(buffers_.q),
          .out = at(buffers_.attended),
          .cache = cache_[layer],
          .block_tables = input<int32_t>(batch_.prompt_tables),
          .query_starts = input<int32_t>(batch_.query_starts),
          .lengths = input<int32_t>(batch_.prompt_lengths),
          .tokens = batch_.tokens,
          .sequences = batch_.prompts,
          .table_width = batch_.prompt_width,
          .heads = config_.num_heads,
          .kv_heads = config_.num_kv_heads,
          .head_dim = config_.head_dim,
          .longest_query = batch_.longest_query,
          .scale = scale,
          .workspace = at<int32_t>(buffers_.prefill)};
}

// Several new tokens a sequence, at once where the cache is bf16; of an FP8 cache the pages of so many prompts are
// widened at a time as there is room for.
void GpuRunner::queue_prompt_attention(size_t layer, float scale) {
  gpu::PrefillAttentionArgs prefill = prefill_args(layer, scale);
  if (batch_.runs.empty()) return check_cuda(api_.prefill_attention(&prefill, stream_));
  prefill.cache = widened_;
  prefill.block_tables = input<int32_t>(batch_.widened_tables);
  int64_t first = 0;
  for (const int64_t end : batch_.runs) {
    prefill.sequences = end - first;
    widen_prompts(layer, first, prefill.sequences);
    check_cuda(api_.prefill_attention(&prefill, stream_));
    prefill.block_tables += prefill.sequences * batch_.prompt_width;
    prefill.query_starts += prefill.sequences;
    prefill.lengths += prefill.sequences;
    first = end;
  }
}

void GpuRunner::widen_prompts(size_t layer, int64_t first, int64_t count) {
  const int64_t table = first * batch_.prompt_width;
  const gpu::WidenCacheArgs widen{.from = cache_[layer],
                                  .to = widened_,
                                  .from_tables = input<int32_t>(batch_.prompt_tables) + table,
                                  .to_tables = input<int32_t>(batch_.widened_tables) + table,
                                  .lengths = input<int32_t>(batch_.prompt_lengths) + first,
                                  .sequences = count,
                                  .table_width = batch_.prompt_width,
                                  .kv_heads = config_.num_kv_heads,
                                  .head_dim = config_.head_dim};
  check_cuda(api_.widen_cache(&widen, stream_));
}

// Each decode as a prompt's last token, which sees all keys; padded rows have none.
void GpuRunner::queue_decodes_as_prompts(size_t layer, float scale) {
  gpu::PrefillAttentionArgs args = prefill_args(layer, scale);
  args.block_tables = input<int32_t>(batch_.decode_tables);
  args.query_starts = at<int32_t>(buffers_.each_row);
  args.lengths = input<int32_t>(batch_.decode_lengths);
  args.sequences = batch_.decode_rows;
  args.table_width = batch_.decode_width;
  args.longest_query = 1;
  args.full = true;
  check_cuda(api_.prefill_attention(&args, stream_));
}

// One new token a sequence: what several sequences begin with is read once for them, then the rest of each.
void GpuRunner::queue_decode_attention(size_t layer, float scale) {
  if (batch_invariant_) return queue_decodes_as_prompts(layer, scale);
  const auto* tables = input<int32_t>(batch_.decode_tables);
  if (batch_.groups > 0) {
    const gpu::PrefixAttentionArgs prefix{.q = at(buffers_.q),
                                          .cache = cache_[layer],
                                          .block_tables = tables,
                                          .prefix_pages = input<int32_t>(batch_.prefix_pages),
                                          .group_starts = input<int32_t>(batch_.group_starts),
                                          .members = input<int32_t>(batch_.members),
                                          .groups = batch_.groups,
                                          .table_width = batch_.decode_width,
                                          .heads = config_.num_heads,
                                          .kv_heads = config_.num_kv_heads,
                                          .head_dim = config_.head_dim,
                                          .scale = scale,
                                          .pieces = at<float>(buffers_.prefix_pieces)};
    check_cuda(api_.prefix_attention(&prefix, stream_));
  }
  const gpu::DecodeAttentionArgs decode{
      .q = at(buffers_.q),
      .out = at(buffers_.attended),
      .cache = cache_[layer],
      .block_tables = tables,
      .lengths = input<int32_t>(batch_.decode_lengths),
      .prefix_pages = batch_.groups > 0 ? input<int32_t>(batch_.prefix_pages) : nullptr,
      .prefix_pieces = batch_.groups > 0 ? at<float>(buffers_.prefix_pieces) : nullptr,
      .sequences = batch_.decode_rows,
      .table_width = batch_.decode_width,
      .heads = config_.num_heads,
      .kv_heads = config_.num_kv_heads,
      .head_dim = config_.head_dim,
      .scale = scale,
      .workspace = at<void>(buffers_.decode_attention)};
  check_cuda(api_.decode_attention(&decode, stream_));
}

// In fp32, of the rows that draw.
void GpuRunner::queue_logits() {
  const Bf16* hidden = at(buffers_.normed);
  if (asked_.scores_prompts()) {  // else the rows that draw are all that there is
    check_cuda(api_.gather_rows(at(buffers_.drawn_hidden), hidden, input<int32_t>(batch_.sample_rows), batch_.draw_rows,
                                config_.hidden_size, stream_));
    hidden = at(buffers_.drawn_hidden);
  }
  project_logits(hidden, batch_.draw_rows, met_later_);
}

// Of this rank's part of the vocabulary, and from them of all of it. later: how often ranks met for logits in this
// step.
void GpuRunner::project_logits(const Bf16* hidden, int64_t rows, uint32_t later) {
  project(at<void>(buffers_.logits_here), hidden, {.weight = model_.lm_head()}, rows, /*fp32=*/true);
  if (ranks_ == nullptr) return;
  gpu::GatherLogitsArgs gather{.meeting = meeting(2 * config_.num_layers, later),
                               .parts = {},
                               .logits = at<float>(buffers_.logits),
                               .rows = rows,
                               .part = config_.vocab_size};
  for (int64_t rank = 0; rank < ranks_->size(); ++rank)
    gather.parts[rank] = reinterpret_cast<const float*>(ranks_->buffers(rank) + buffers_.logits_here);
  check_cuda(api_.gather_logits(&gather, stream_));
}

void GpuRunner::queue_samples() {
  const gpu::SampleArgs sample{.logits = at<float>(buffers_.logits),
                               .rows = batch_.draw_rows,
                               .vocab = vocab_,
                               .temperature = input<float>(batch_.temperature),
                               .top_p = input<float>(batch_.top_p),
                               .min_p = input<float>(batch_.min_p),
                               .top_k = input<int32_t>(batch_.top_k),
                               .seed = input<uint64_t>(batch_.seed),
                               .position = input<uint64_t>(batch_.position),
                               .tokens = at<int32_t>(buffers_.results),
                               .log_probs = at<float>(buffers_.results) + batch_.draw_rows,
                               .cuts = batch_.cuts,
                               .workspace = at<void>(buffers_.sampling)};
  check_cuda(api_.sample(&sample, stream_));
  if (batch_invariant_) queue_scores();
}

// The draws' log-probs anew, by the trainer's kernel.
void GpuRunner::queue_scores() {
  auto* of_rows = at<float>(buffers_.scores);
  const gpu::HeadScoresArgs scores{.logits = at<float>(buffers_.logits),
                                   .targets = at<int32_t>(buffers_.results),
                                   .inverse_temperature = input<float>(batch_.inverse_temperature),
                                   .log_probs = at<float>(buffers_.results) + batch_.draw_rows,
                                   .entropy = of_rows,
                                   .maximum = of_rows + most_draws_,
                                   .inverse_total = of_rows + 2 * most_draws_,
                                   .rows = batch_.draw_rows,
                                   .vocab = vocab_};
  check_cuda(api_.head_scores(&scores, stream_));
}

}  // namespace tritonforge::engine
