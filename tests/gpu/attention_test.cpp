// Tolerance: the probabilities are rounded to bfloat16 before the second product and the output once more, so a row
// of head_dim values differs from the float64 reference by ~2e-3 of its size; 6e-3 is the bound. One wrong element of
// 128 would be ~9e-2.
#include "gpu/fixture.h"
#include "kernels/paged_attention.h"

namespace tritonforge::gpu {
namespace {

constexpr double kTolerance = 6e-3;

struct Heads {
  int64_t heads, kv_heads, d;
};

// A cache whose blocks are dealt at random; everything beyond the sequences' lengths is NaN.
struct Context {
  at::Tensor keys, values, tables;  // [blocks, kv_heads, kPage, d] bf16, [sequences, width]
  bool fp8 = false;                 // the device has it in FP8, and keys and values are what that stands for
  std::vector<int32_t> lengths;
  int64_t width;
};
Context make_context(const Heads& h, const std::vector<int32_t>& lengths, int64_t extra_width = 3) {
  Context c{.lengths = lengths, .width = extra_width};
  int64_t blocks = 1;
  for (const int32_t length : lengths) {
    blocks += (length + kPage - 1) / kPage;
    c.width = std::max<int64_t>(c.width, (length + kPage - 1) / kPage + extra_width);
  }
  c.keys = random_bf16({blocks, h.kv_heads, kPage, h.d});
  c.values = random_bf16({blocks, h.kv_heads, kPage, h.d});
  c.tables = at::zeros({static_cast<int64_t>(lengths.size()), c.width}, at::kInt);
  const at::Tensor order = at::randperm(blocks - 1) + 1;  // block 0 is nobody's
  int64_t next = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const int64_t used = (lengths[s] + kPage - 1) / kPage;
    for (int64_t page = 0; page < used; ++page) {
      const int64_t block = order[next++].item<int64_t>();
      c.tables[static_cast<int64_t>(s)][page] = static_cast<int32_t>(block);
      const int64_t valid = std::min<int64_t>(kPage, lengths[s] - page * kPage);
      for (auto* x : {&c.keys, &c.values}) x->select(0, block).slice(1, valid).fill_(std::nan(""));
    }
  }
  for (auto* x : {&c.keys, &c.values}) x->select(0, 0).fill_(std::nan(""));
  return c;
}

Context in_fp8(Context c) {
  c.fp8 = true;
  c.keys = kernels::fp8_rounded(c.keys);
  c.values = kernels::fp8_rounded(c.values);
  return c;
}

// A context's cache on the device.
struct DeviceCache {
  Buffer keys, values, scales;
  KvLayer layer() const {
    return {keys.as<void>(), values.as<void>(), scales.bytes() > 0 ? scales.as<uint8_t>() : nullptr};
  }
};

// q [count, heads, d] are the last `count` tokens of sequence s; causal, in float64.
at::Tensor reference(const Context& c, const Heads& h, size_t s, const at::Tensor& q, double scale) {
  const int64_t length = c.lengths[s], count = q.size(0), group = h.heads / h.kv_heads;
  if (length == 0) return at::zeros(q.sizes(), at::kDouble);
  const at::Tensor blocks = c.tables[static_cast<int64_t>(s)].slice(0, 0, (length + kPage - 1) / kPage).to(at::kLong);
  const auto rows = [&](const at::Tensor& x) {  // [kv_heads, length, d]
    return x.index_select(0, blocks)
        .transpose(1, 2)
        .reshape({-1, h.kv_heads, h.d})
        .slice(0, 0, length)
        .transpose(0, 1)
        .to(at::kDouble);
  };
  const at::Tensor queries = q.to(at::kDouble)
                                 .view({count, h.kv_heads, group, h.d})
                                 .permute({1, 2, 0, 3})
                                 .reshape({h.kv_heads, group * count, h.d});
  at::Tensor scores = at::bmm(queries, rows(c.keys).transpose(1, 2)).view({h.kv_heads, group, count, length}) * scale;
  const at::Tensor last = at::arange(length - count, length).unsqueeze(1), key = at::arange(length).unsqueeze(0);
  scores = scores.masked_fill(key > last, -std::numeric_limits<double>::infinity());
  const at::Tensor out = at::bmm(at::softmax(scores, -1).view({h.kv_heads, group * count, length}), rows(c.values));
  return out.view({h.kv_heads, group, count, h.d}).permute({2, 0, 1, 3}).reshape({count, h.heads, h.d});
}

// Groups of rows whose tables begin with the same pages.
struct Groups {
  std::vector<int32_t> pages, starts{0}, members;  // pages: of every row, 0 where it is in none
  explicit Groups(size_t rows) : pages(rows, 0) {}
  void add(Context& c, const std::vector<int32_t>& rows, int32_t shared) {
    for (const int32_t row : rows) {
      c.tables[row].slice(0, 0, shared).copy_(c.tables[rows[0]].slice(0, 0, shared));
      pages[static_cast<size_t>(row)] = shared;
      members.push_back(row);
    }
    starts.push_back(static_cast<int32_t>(members.size()));
  }
  Groups each_alone() const {
    Groups alone(pages.size());
    alone.pages = pages;
    alone.members = members;
    for (size_t i = 1; i <= members.size(); ++i) alone.starts.push_back(static_cast<int32_t>(i));
    return alone;
  }
};

class DecodeAttention : public GpuTest {
 protected:
  // Runs it twice over one workspace and wants the same bits and counters at zero. With groups: what they share by
  // prefix_attention(), with two empty groups behind them.
  at::Tensor run(const Heads& h, const Context& c, const at::Tensor& q, const Groups* groups = nullptr) {
    const auto sequences = static_cast<int64_t>(c.lengths.size());
    const Groups none(0);
    std::vector<int32_t> padded = groups != nullptr ? groups->starts : none.starts;
    padded.insert(padded.end(), 2, padded.back());
    const Buffer pages = upload(ints((groups != nullptr ? *groups : none).pages)), starts = upload(ints(padded)),
                 members = upload(ints((groups != nullptr ? *groups : none).members)),
                 pieces(api().prefix_attention_pieces(sequences, h.heads, h.kv_heads, h.d));
    const DeviceCache cache = upload_cache(c);
    const Buffer dq = upload(q), tables = upload(c.tables), lengths = upload(ints(c.lengths));
    const Buffer workspace(api().decode_attention_workspace(sequences, h.heads, h.kv_heads, h.d), 0);
    at::Tensor first;
    for (int round = 0; round < 2; ++round) {
      const Buffer out = like({sequences, h.heads, h.d}, at::kBFloat16);
      const PrefixAttentionArgs prefix{.q = dq.as(),
                                       .cache = cache.layer(),
                                       .block_tables = tables.as<int32_t>(),
                                       .prefix_pages = pages.as<int32_t>(),
                                       .group_starts = starts.as<int32_t>(),
                                       .members = members.as<int32_t>(),
                                       .groups = static_cast<int64_t>(padded.size()) - 1,
                                       .table_width = c.width,
                                       .heads = h.heads,
                                       .kv_heads = h.kv_heads,
                                       .head_dim = h.d,
                                       .scale = scale(h),
                                       .pieces = pieces.as<float>()};
      if (groups != nullptr) check_cuda(api().prefix_attention(&prefix, stream));
      const DecodeAttentionArgs args{.q = dq.as(),
                                     .out = out.as(),
                                     .cache = cache.layer(),
                                     .block_tables = tables.as<int32_t>(),
                                     .lengths = lengths.as<int32_t>(),
                                     .prefix_pages = groups != nullptr ? pages.as<int32_t>() : nullptr,
                                     .prefix_pieces = groups != nullptr ? pieces.as<float>() : nullptr,
                                     .sequences = sequences,
                                     .table_width = c.width,
                                     .heads = h.heads,
                                     .kv_heads = h.kv_heads,
                                     .head_dim = h.d,
                                     .scale = scale(h),
                                     .workspace = workspace.as<void>()};
      check_cuda(api().decode_attention(&args, stream));
      const at::Tensor found = download(out, {sequences, h.heads, h.d}, at::kBFloat16);
      if (round == 0) first = found;
      else EXPECT_TRUE(at::equal(first.view(at::kShort), found.view(at::kShort))) << "two runs differ";
    }
    EXPECT_EQ(download(workspace, {1024 * h.kv_heads}, at::kInt).count_nonzero().item<int64_t>(), 0)
        << "counters are left behind";
    return first;
  }
  DeviceCache upload_cache(const Context& c) const {
    if (!c.fp8) return {upload(c.keys), upload(c.values), Buffer()};
    const Fp8Rows keys = fp8_rows(c.keys), values = fp8_rows(c.values);
    return {upload(keys.bytes), upload(values.bytes), upload(at::stack({keys.scales, values.scales}, 2))};
  }
  static float scale(const Heads& h) { return 1.0f / std::sqrt(static_cast<float>(h.d)); }
  void compare(const Heads& h, const std::vector<int32_t>& lengths) {
    const Context c = make_context(h, lengths);
    const at::Tensor q = random_bf16({static_cast<int64_t>(lengths.size()), h.heads, h.d}, 2);
    expect_near_reference(h, c, q, run(h, c, q));
    const Context rounded = in_fp8(c);
    expect_near_reference(h, rounded, q, run(h, rounded, q));
  }
  void expect_near_reference(const Heads& h, const Context& c, const at::Tensor& q, const at::Tensor& found) {
    const std::vector<int32_t>& lengths = c.lengths;
    double worst = 0;
    for (size_t s = 0; s < lengths.size(); ++s) {
      const auto at = static_cast<int64_t>(s);
      if (lengths[s] == 0) EXPECT_EQ(found[at].to(at::kFloat).abs().max().item<float>(), 0.0f) << "padded row " << s;
      else worst = std::max(worst, worst_row_error(found[at], reference(c, h, s, q.slice(0, at, at + 1), scale(h))[0]));
    }
    EXPECT_LE(worst, kTolerance) << h.heads << "/" << h.kv_heads << "/" << h.d << ", " << lengths.size()
                                 << " sequences from " << lengths[0];
  }
};

TEST_F(DecodeAttention, EveryGroupAndLength) {
  const std::vector<Heads> shapes{{1, 1, 64},  {2, 1, 128},  {32, 8, 128}, {10, 2, 64},  {14, 2, 64},
                                  {7, 1, 128}, {16, 2, 128}, {16, 1, 64},  {12, 1, 128}, {40, 8, 128}};
  for (const Heads& h : shapes) {
    for (const int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 127, 500, 1152, 5000}) compare(h, {length});
    compare(h, {1, 5000, 0, 16, 33, 700});
  }
}

TEST_F(DecodeAttention, RaggedBatches) {
  for (const Heads& h : {Heads{32, 8, 128}, Heads{14, 2, 64}}) {
    for (const int64_t sequences : {2, 3, 8, 31, 64, 130, 257}) {
      std::vector<int32_t> lengths;
      for (int64_t s = 0; s < sequences; ++s)
        lengths.push_back(
            at::randint(0, 8, {1}).item<int>() == 0 ? 0 : at::randint(1, sequences > 64 ? 200 : 900, {1}).item<int>());
      compare(h, lengths);
    }
    compare(h, std::vector<int32_t>(64, 320));
    compare(h, std::vector<int32_t>(20, 0));
    std::vector<int32_t> one_long(64, 3);
    one_long[40] = 4000;
    compare(h, one_long);
  }
}

TEST_F(DecodeAttention, LargeScoresStayFinite) {
  const Heads h{32, 8, 128};
  Context c = make_context(h, {300, 77});
  const at::Tensor q = random_bf16({2, h.heads, h.d}, 40);
  const at::Tensor found = run(h, c, q);
  for (int64_t s = 0; s < 2; ++s)
    EXPECT_LE(worst_row_error(found[s], reference(c, h, static_cast<size_t>(s), q.slice(0, s, s + 1), scale(h))[0]),
              2 * kTolerance);
}

// One graph serves later steps: lengths and tables are read on the device.
TEST_F(DecodeAttention, AGraphFollowsTheLengths) {
  const Heads h{32, 8, 128};
  const Context c = make_context(h, {400, 0, 33, 150});
  const at::Tensor q = random_bf16({4, h.heads, h.d});
  const Buffer dq = upload(q), keys = upload(c.keys), values = upload(c.values), tables = upload(c.tables),
               lengths = upload(ints({1, 1, 0, 90}));
  const Buffer workspace(api().decode_attention_workspace(4, h.heads, h.kv_heads, h.d), 0),
      out = like({4, h.heads, h.d}, at::kBFloat16);
  const DecodeAttentionArgs args{.q = dq.as(),
                                 .out = out.as(),
                                 .cache = {keys.as(), values.as()},
                                 .block_tables = tables.as<int32_t>(),
                                 .lengths = lengths.as<int32_t>(),
                                 .sequences = 4,
                                 .table_width = c.width,
                                 .heads = h.heads,
                                 .kv_heads = h.kv_heads,
                                 .head_dim = h.d,
                                 .scale = scale(h),
                                 .workspace = workspace.as<void>()};
  Graph graph = nullptr;
  check_cuda(api().capture_begin(stream));
  check_cuda(api().decode_attention(&args, stream));
  check_cuda(api().capture_end(stream, &graph, nullptr));
  const Buffer real = upload(ints(c.lengths));
  check_cuda(api().copy(lengths.as<void>(), real.as<void>(), 16, stream));
  check_cuda(api().graph_launch(graph, stream));
  EXPECT_TRUE(
      at::equal(download(out, {4, h.heads, h.d}, at::kBFloat16).view(at::kShort), run(h, c, q).view(at::kShort)));
  check_cuda(api().graph_destroy(graph));
}

// Three groups and some rows of none, their members apart; a prefix of one piece, of several and of the most. What each
// member gets is near the reference, and has the bits of a member that reads the same pages alone.
TEST_F(DecodeAttention, ASharedPrefixIsReadOnceAndChangesNothing) {
  for (const Heads& h : {Heads{32, 8, 128}, Heads{14, 2, 64}, Heads{16, 1, 128}, Heads{4, 4, 64}, Heads{40, 8, 128}}) {
    const auto most = static_cast<size_t>(kPrefixColumns * h.kv_heads / h.heads);
    std::vector<std::vector<int32_t>> groups(3);
    std::vector<int32_t> lengths;
    const std::vector<int32_t> shared{5, 33, 300};
    for (size_t i = 0; i < std::min<size_t>(most, 8); ++i) {
      for (size_t g = 0; g < 3; ++g) {
        if (g == 1 && i >= 2 && i + 1 >= most) continue;  // not full
        groups[g].push_back(static_cast<int32_t>(lengths.size()));
        lengths.push_back(shared[g] * kPage + 1 + static_cast<int32_t>(37 * i * (g + 1)));
      }
      lengths.push_back(i % 2 == 0 ? 0 : 100 + static_cast<int32_t>(i));  // a padded row or one of no group
    }
    Context plain = make_context(h, lengths);
    Groups sharing(lengths.size());
    for (size_t g = 0; g < 3; ++g) sharing.add(plain, groups[g], shared[g]);
    const at::Tensor q = random_bf16({static_cast<int64_t>(lengths.size()), h.heads, h.d}, 2);
    for (const Context& c : {plain, in_fp8(plain)}) {
      const at::Tensor found = run(h, c, q, &sharing);
      expect_near_reference(h, c, q, found);
      const Groups alone = sharing.each_alone();
      EXPECT_TRUE(at::equal(found.view(at::kShort), run(h, c, q, &alone).view(at::kShort)))
          << h.heads << "/" << h.kv_heads << ": a member's bits depend on the others";
      EXPECT_LE(worst_row_error(found, run(h, c, q).to(at::kDouble)), kTolerance);  // without sharing
    }
  }
}

// A row that is not finite is not lost in the rounding.
TEST_F(DecodeAttention, AKeyInFp8ThatIsNotFiniteStaysSo) {
  const Heads h{8, 2, 128};
  Context c = make_context(h, {40, 40});
  const auto block = c.tables[1][1].item<int64_t>();
  c.keys[block][1][3][7] = std::nan("");
  const at::Tensor q = random_bf16({2, h.heads, h.d}, 2), found = run(h, in_fp8(c), q);
  EXPECT_TRUE(found[0].isfinite().all().item<bool>());
  EXPECT_TRUE(found[1].slice(0, 0, 4).isfinite().all().item<bool>());  // the other kv head
  EXPECT_TRUE(found[1].slice(0, 4, 8).isnan().all().item<bool>());
}

// What a decode of 32 prompts with 8 samples each does; a graph serves it, and later one of fewer and other groups.
TEST_F(DecodeAttention, AGraphFollowsTheGroups) {
  const Heads h{32, 8, 128};
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < 32; ++i) lengths.push_back(700 + 13 * i);
  Context c = make_context(h, lengths);
  Groups first(32), later(32);
  for (int32_t g = 0; g < 4; ++g) {
    std::vector<int32_t> rows;
    for (int32_t i = 0; i < 8; ++i) rows.push_back(g + 4 * i);
    first.add(c, rows, 40);
  }
  later.add(c, {0, 4, 8}, 20);
  later.add(c, {3, 31}, 40);
  const at::Tensor q = random_bf16({32, h.heads, h.d}, 2);
  const Buffer dq = upload(q), keys = upload(c.keys), values = upload(c.values), tables = upload(c.tables),
               lengths_there = upload(ints(lengths)), pages = like({32}, at::kInt), starts = like({17}, at::kInt),
               members = like({32}, at::kInt), pieces(api().prefix_attention_pieces(32, h.heads, h.kv_heads, h.d)),
               workspace(api().decode_attention_workspace(32, h.heads, h.kv_heads, h.d), 0),
               out = like({32, h.heads, h.d}, at::kBFloat16);
  const auto write = [&](const Groups& g) {
    std::vector<int32_t> padded_starts = g.starts, padded_members = g.members;
    padded_starts.resize(17, g.starts.back());
    padded_members.resize(32, 0);
    const at::Tensor a = ints(g.pages), b = ints(padded_starts), d = ints(padded_members);
    check_cuda(api().copy(pages.as<void>(), a.const_data_ptr(), 32 * 4, stream));
    check_cuda(api().copy(starts.as<void>(), b.const_data_ptr(), 17 * 4, stream));
    check_cuda(api().copy(members.as<void>(), d.const_data_ptr(), 32 * 4, stream));
    check_cuda(api().stream_synchronize(stream));
  };
  const PrefixAttentionArgs prefix{.q = dq.as(),
                                   .cache = {keys.as(), values.as()},
                                   .block_tables = tables.as<int32_t>(),
                                   .prefix_pages = pages.as<int32_t>(),
                                   .group_starts = starts.as<int32_t>(),
                                   .members = members.as<int32_t>(),
                                   .groups = 16,
                                   .table_width = c.width,
                                   .heads = h.heads,
                                   .kv_heads = h.kv_heads,
                                   .head_dim = h.d,
                                   .scale = scale(h),
                                   .pieces = pieces.as<float>()};
  const DecodeAttentionArgs args{.q = dq.as(),
                                 .out = out.as(),
                                 .cache = prefix.cache,
                                 .block_tables = prefix.block_tables,
                                 .lengths = lengths_there.as<int32_t>(),
                                 .prefix_pages = prefix.prefix_pages,
                                 .prefix_pieces = prefix.pieces,
                                 .sequences = 32,
                                 .table_width = c.width,
                                 .heads = h.heads,
                                 .kv_heads = h.kv_heads,
                                 .head_dim = h.d,
                                 .scale = scale(h),
                                 .workspace = workspace.as<void>()};
  write(first);
  Graph graph = nullptr;
  check_cuda(api().capture_begin(stream));
  check_cuda(api().prefix_attention(&prefix, stream));
  check_cuda(api().decode_attention(&args, stream));
  check_cuda(api().capture_end(stream, &graph, nullptr));
  for (const Groups& now : {first, later, first}) {
    write(now);
    check_cuda(api().graph_launch(graph, stream));
    const at::Tensor found = download(out, {32, h.heads, h.d}, at::kBFloat16);
    expect_near_reference(h, c, q, found);
    EXPECT_TRUE(at::equal(found.view(at::kShort), run(h, c, q, &now).view(at::kShort)));
  }
  check_cuda(api().graph_destroy(graph));
}

class PrefillAttention : public GpuTest {
 protected:
  void compare(const Heads& h, const std::vector<int32_t>& before, const std::vector<int32_t>& counts) {
    std::vector<int32_t> lengths, starts{0};
    int32_t longest = 0;
    for (size_t s = 0; s < counts.size(); ++s) {
      lengths.push_back(before[s] + counts[s]);
      starts.push_back(starts.back() + counts[s]);
      longest = std::max(longest, counts[s]);
    }
    const Context c = make_context(h, lengths);
    const int64_t tokens = starts.back() + 5;  // five rows of padding
    const float scale = 1.0f / std::sqrt(static_cast<float>(h.d));
    const at::Tensor q = random_bf16({tokens, h.heads, h.d}, 2);
    const Buffer dq = upload(q), keys = upload(c.keys), values = upload(c.values), tables = upload(c.tables),
                 d_lengths = upload(ints(lengths)), d_starts = upload(ints(starts));
    const Buffer out = like({tokens, h.heads, h.d}, at::kBFloat16), workspace(8, 0);
    const PrefillAttentionArgs args{.q = dq.as(),
                                    .out = out.as(),
                                    .cache = {keys.as(), values.as()},
                                    .block_tables = tables.as<int32_t>(),
                                    .query_starts = d_starts.as<int32_t>(),
                                    .lengths = d_lengths.as<int32_t>(),
                                    .tokens = tokens,
                                    .sequences = static_cast<int64_t>(counts.size()),
                                    .table_width = c.width,
                                    .heads = h.heads,
                                    .kv_heads = h.kv_heads,
                                    .head_dim = h.d,
                                    .longest_query = longest,
                                    .scale = scale,
                                    .workspace = workspace.as<int32_t>()};
    check_cuda(api().prefill_attention(&args, stream));
    const at::Tensor found = download(out, {tokens, h.heads, h.d}, at::kBFloat16);
    check_cuda(api().prefill_attention(&args, stream));
    EXPECT_TRUE(
        at::equal(download(out, {tokens, h.heads, h.d}, at::kBFloat16).view(at::kShort), found.view(at::kShort)))
        << "two runs differ";
    EXPECT_EQ(download(workspace, {2}, at::kInt).count_nonzero().item<int64_t>(), 0) << "counters are left behind";
    double worst = 0;
    for (size_t s = 0; s < counts.size(); ++s) {
      if (counts[s] == 0) continue;
      const at::Tensor expected = reference(c, h, s, q.slice(0, starts[s], starts[s + 1]), scale);
      worst = std::max(worst, worst_row_error(found.slice(0, starts[s], starts[s + 1]), expected));
    }
    EXPECT_LE(worst, kTolerance) << h.heads << "/" << h.kv_heads << "/" << h.d << ", " << counts[0] << " new after "
                                 << before[0];
    EXPECT_TRUE(found.slice(0, starts.back()).isnan().all().item<bool>()) << "rows of nobody were written";
  }
};

TEST_F(PrefillAttention, EveryGroupAndLength) {
  for (const Heads& h :
       {Heads{1, 1, 64}, Heads{32, 8, 128}, Heads{14, 2, 64}, Heads{10, 2, 128}, Heads{7, 1, 64}, Heads{16, 2, 128}}) {
    for (const int32_t count : {1, 2, 16, 31, 64, 65, 129, 700}) compare(h, {0}, {count});
    for (const int32_t before : {1, 15, 64, 100, 1600}) compare(h, {before}, {37});
  }
}

TEST_F(PrefillAttention, RaggedSequences) {
  compare({32, 8, 128}, {0, 16, 900, 0, 5, 63}, {300, 1, 64, 0, 129, 1});
  compare({14, 2, 64}, {0, 16, 900, 0, 5, 63}, {300, 1, 64, 0, 129, 1});
  compare({32, 8, 128}, std::vector<int32_t>(40, 20), std::vector<int32_t>(40, 3));
  compare({32, 8, 128}, {0}, {2500});
}

// More than the 2,048 of a launch, the last one's among them: 2 * 2,048 + 1.
TEST_F(PrefillAttention, AnyNumberOfSequences) {
  for (const int32_t sequences : {2048, 2049, 4097}) {
    std::vector<int32_t> before, counts;
    for (int32_t s = 0; s < sequences; ++s) {
      before.push_back(s % 7 == 0 ? 40 : 0);
      counts.push_back(s % 5);  // and 0, which has no row
    }
    counts.front() = counts.back() = 150;
    compare({14, 2, 64}, before, counts);
    compare({4, 2, 128}, before, counts);
  }
}

// The pages of two sequences of an FP8 cache, each into the place that it is given: exactly what they stand for.
TEST_F(DecodeAttention, WidenedPagesAreWhatFp8StandsFor) {
  for (const Heads& h : {Heads{32, 8, 128}, Heads{14, 2, 64}}) {
    const Context c = in_fp8(make_context(h, {700, 33}));
    const DeviceCache cache = upload_cache(c);
    at::Tensor places = at::full({2, c.width}, 1000000, at::kInt);
    places[0].slice(0, 0, 44).copy_(at::arange(3, 47));
    places[1].slice(0, 0, 3).copy_(at::arange(0, 3));
    const std::vector<int64_t> shape{50, h.kv_heads, kPage, h.d};
    const Buffer keys = like(shape, at::kBFloat16), values = like(shape, at::kBFloat16), from = upload(c.tables),
                 to = upload(places), lengths = upload(ints(c.lengths));
    const WidenCacheArgs args{.from = cache.layer(),
                              .to = {keys.as(), values.as()},
                              .from_tables = from.as<int32_t>(),
                              .to_tables = to.as<int32_t>(),
                              .lengths = lengths.as<int32_t>(),
                              .sequences = 2,
                              .table_width = c.width,
                              .kv_heads = h.kv_heads,
                              .head_dim = h.d};
    check_cuda(api().widen_cache(&args, stream));
    for (const auto& [found, wanted] : {std::pair(download(keys, shape, at::kBFloat16), c.keys),
                                        std::pair(download(values, shape, at::kBFloat16), c.values)}) {
      for (int64_t s = 0; s < 2; ++s) {
        for (int64_t t = 0; t < c.lengths[static_cast<size_t>(s)]; ++t) {
          const auto place = places[s][t / kPage].item<int64_t>(), block = c.tables[s][t / kPage].item<int64_t>();
          ASSERT_TRUE(
              at::equal(found.select(0, place).select(1, t % kPage), wanted.select(0, block).select(1, t % kPage)))
              << "token " << t << " of sequence " << s;
        }
      }
      EXPECT_TRUE(found.slice(0, 47).isnan().all().item<bool>()) << "pages of nobody were written";
    }
  }
}

}  // namespace
}  // namespace tritonforge::gpu
