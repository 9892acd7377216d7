#include "train/prefixes.h"

#include <algorithm>

namespace tritonforge::train {
namespace {

// Tokens before the one whose row predicts the first target.
int64_t shareable(const TrainSequence& s) {
  const auto first = std::ranges::find_if(s.loss_mask, [](uint8_t m) { return m != 0; });
  return std::max<int64_t>(0, first - s.loss_mask.begin() - 1);
}

std::span<const int64_t> head_of(const TrainSequence& s) {
  return std::span(s.tokens).first(static_cast<size_t>(shareable(s)));
}

int64_t common_tokens(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

SharedPrefixes::SharedPrefixes(std::span<const TrainSequence> sequences, const std::vector<size_t>& indices,
                               const std::optional<SharingCosts>& costs)
    : parents_(sequences.size(), -1), lengths_(sequences.size()) {
  for (const size_t index : indices) lengths_[index] = forward_length(sequences[index]);
  if (!costs || indices.empty()) return;
  std::vector<size_t> order = indices;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::ranges::lexicographical_compare(head_of(sequences[a]), head_of(sequences[b]));
  });
  std::vector<Run> runs;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t common = i == 0 ? 0 : common_tokens(head_of(sequences[order[i - 1]]), head_of(sequences[order[i]]));
    runs.push_back({order[i], common});
  }
  grow(runs, -1, *costs);
}

void SharedPrefixes::grow(std::span<const Run> runs, int64_t parent, const SharingCosts& costs) {
  if (runs.size() == 1) {
    parents_[runs[0].sequence] = parent;
    return;
  }
  const int64_t common = std::ranges::min(runs.subspan(1), {}, &Run::common).common;
  std::vector<std::span<const Run>> children;  // that have no more than `common` tokens of another one
  for (size_t begin = 0, i = 1; i <= runs.size(); ++i) {
    if (i < runs.size() && runs[i].common > common) continue;
    children.push_back(runs.subspan(begin, i - begin));
    begin = i;
  }
  const int64_t end = common / costs.layout.unit * costs.layout.unit;
  if (pays(runs, std::ssize(children), end_of(parent), end, costs)) {
    nodes_.push_back({parent, end});
    parent = std::ssize(nodes_) - 1;
  }
  for (const auto& child : children) grow(child, parent, costs);
}

// What all but one of the children do not compute, beside the half of a block of keys, which are nobody's, that every
// token behind meets.
bool SharedPrefixes::pays(std::span<const Run> runs, int64_t children, int64_t begin, int64_t end,
                          const SharingCosts& costs) const {
  if (end <= begin) return false;
  double behind = 0;
  for (const Run& run : runs) behind += static_cast<double>(lengths_[run.sequence] - end);
  return static_cast<double>(children - 1) * costs.flops.of_run(begin, end - begin) >
         behind * static_cast<double>(costs.layout.block) / 2 * costs.flops.pair;
}

std::vector<int64_t> SharedPrefixes::path_to(size_t sequence) const {
  std::vector<int64_t> path;
  for (int64_t node = parents_[sequence]; node >= 0; node = nodes_[static_cast<size_t>(node)].parent)
    path.push_back(node);
  std::ranges::reverse(path);
  return path;
}

std::vector<size_t> SharedPrefixes::ordered(const std::vector<size_t>& indices) const {
  std::vector<size_t> first(nodes_.size(), indices.size());  // place of the first sequence behind each node
  for (size_t place = indices.size(); place-- > 0;) {
    for (const int64_t node : path_to(indices[place])) first[static_cast<size_t>(node)] = place;
  }
  std::vector<std::pair<std::vector<size_t>, size_t>> places;  // of the nodes on its way and its own
  for (size_t place = 0; place < indices.size(); ++place) {
    auto& [key, index] = places.emplace_back();
    for (const int64_t node : path_to(indices[place])) key.push_back(first[static_cast<size_t>(node)]);
    key.push_back(place);
    index = indices[place];
  }
  std::ranges::sort(places);
  std::vector<size_t> order;
  for (const auto& [key, index] : places) order.push_back(index);
  return order;
}

std::vector<std::vector<size_t>> SharedPrefixes::parts(const std::vector<size_t>& indices, int64_t limit) const {
  std::vector<std::vector<size_t>> parts;
  std::vector<size_t> part_with(nodes_.size());  // how many parts there were when one got the node's tokens
  int64_t tokens = 0, family = -1;
  for (const size_t index : ordered(indices)) {
    const std::vector<int64_t> path = path_to(index);
    int64_t begin = 0;  // of what the part does not have yet
    for (const int64_t node : path) {
      if (part_with[static_cast<size_t>(node)] == parts.size()) begin = end_of(node);
    }
    const bool goes_on = !path.empty() && path.front() == family && begin > 0;
    if (!goes_on || tokens + lengths_[index] - begin > limit) {
      parts.emplace_back();
      tokens = begin = 0;
      family = path.empty() ? -1 : path.front();
    }
    parts.back().push_back(index);
    for (const int64_t node : path) part_with[static_cast<size_t>(node)] = parts.size();
    tokens += lengths_[index] - begin;
  }
  return parts;
}

std::vector<Segment> SharedPrefixes::segments(const std::vector<size_t>& indices) const {
  // Nodes from which at least two ways go on here; the others' tokens are those of what is behind them.
  std::vector<int64_t> ways(nodes_.size());
  std::vector<bool> seen(nodes_.size());
  for (const size_t index : indices) {
    int64_t node = parents_[index];
    for (; node >= 0 && !seen[static_cast<size_t>(node)]; node = nodes_[static_cast<size_t>(node)].parent) {
      seen[static_cast<size_t>(node)] = true;
      ++ways[static_cast<size_t>(node)];
    }
    if (node >= 0) ++ways[static_cast<size_t>(node)];
  }
  std::vector<Segment> segments;
  std::vector<int64_t> segment_of(nodes_.size(), -1);
  for (const size_t index : ordered(indices)) {
    int64_t parent = -1;
    for (const int64_t node : path_to(index)) {
      if (ways[static_cast<size_t>(node)] < 2) continue;
      int64_t& segment = segment_of[static_cast<size_t>(node)];
      if (segment < 0) {
        segment = std::ssize(segments);
        segments.push_back({.sequence = index,
                            .begin = parent < 0 ? 0 : segments[static_cast<size_t>(parent)].end,
                            .end = end_of(node),
                            .parent = parent,
                            .has_targets = false});
      }
      parent = segment;
    }
    segments.push_back({.sequence = index,
                        .begin = parent < 0 ? 0 : segments[static_cast<size_t>(parent)].end,
                        .end = lengths_[index],
                        .parent = parent});
  }
  return segments;
}

double training_flops(const TrainingFlops& flops, std::span<const Segment> segments, int64_t targets) {
  double total = flops.target * static_cast<double>(targets);
  for (const Segment& s : segments) total += flops.of_run(s.begin, s.end - s.begin);
  return total;
}

}  // namespace tritonforge::train
