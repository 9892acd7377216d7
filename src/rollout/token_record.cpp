#include "rollout/token_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/binary.h"

namespace tritonforge::rollout {
namespace {

constexpr size_t kLeastTurn = 4 * sizeof(uint32_t);
constexpr size_t kRunBytes = sizeof(int64_t) + sizeof(uint32_t);
constexpr size_t kMostTokens = size_t{1} << 26;  // of one turn: what a damaged record could make of a few bytes

std::vector<int32_t> narrow(std::span<const int64_t> tokens) {
  std::vector<int32_t> out;
  out.reserve(tokens.size());
  for (const int64_t token : tokens) {
    if (token < 0 || token > std::numeric_limits<int32_t>::max()) fail(ErrorKind::kUsage, "{} is no token id", token);
    out.push_back(static_cast<int32_t>(token));
  }
  return out;
}

std::vector<std::pair<int64_t, uint32_t>> runs_of(const std::vector<int64_t>& versions) {
  std::vector<std::pair<int64_t, uint32_t>> runs;
  for (const int64_t version : versions) {
    if (runs.empty() || runs.back().first != version) runs.emplace_back(version, 0);
    ++runs.back().second;
  }
  return runs;
}

std::vector<int64_t> before(const Turn& turn) {
  std::vector<int64_t> tokens = turn.prompt_tokens;
  tokens.insert(tokens.end(), turn.response_tokens.begin(), turn.response_tokens.end());
  return tokens;
}

void write(BinaryWriter& out, const Turn& turn, const std::vector<int64_t>& last) {
  TF_CHECK(turn.log_probs.size() == turn.response_tokens.size() &&
               turn.weight_versions.size() == turn.response_tokens.size(),
           "a turn of {} sampled tokens has {} log-probabilities and {} weight versions", turn.response_tokens.size(),
           turn.log_probs.size(), turn.weight_versions.size());
  for (const float value : turn.log_probs)
    TF_CHECK(std::isfinite(value), "log-probability {} of a sampled token", value);
  const auto shared = static_cast<size_t>(std::ranges::mismatch(last, turn.prompt_tokens).in1 - last.begin());
  const auto prompt = narrow(std::span(turn.prompt_tokens).subspan(shared));
  const auto response = narrow(turn.response_tokens);
  const auto runs = runs_of(turn.weight_versions);
  for (const size_t count : {shared, prompt.size(), response.size(), runs.size()})
    out.value(static_cast<uint32_t>(count));
  out.array(std::span(prompt));
  out.array(std::span(response));
  out.array(std::span(turn.log_probs));
  for (const auto& [version, tokens] : runs) {
    out.value(version);
    out.value(tokens);
  }
}

void read(BinaryReader& in, Turn& turn, const std::vector<int64_t>& last, std::string_view where) {
  const auto shared = in.value<uint32_t>(where), prompt = in.value<uint32_t>(where);
  const auto response = in.value<uint32_t>(where), runs = in.value<uint32_t>(where);
  if (shared > last.size())
    fail(ErrorKind::kUsage, "{}: shares {} tokens with a turn of {}", where, shared, last.size());
  turn.prompt_tokens.assign(last.begin(), last.begin() + shared);
  const auto rest = in.array<int32_t>(prompt, where), answer = in.array<int32_t>(response, where);
  turn.prompt_tokens.insert(turn.prompt_tokens.end(), rest.begin(), rest.end());
  turn.response_tokens.assign(answer.begin(), answer.end());
  if (turn.prompt_tokens.size() > kMostTokens)
    fail(ErrorKind::kUsage, "{}: a prompt of {} tokens", where, turn.prompt_tokens.size());
  for (const auto* tokens : {&turn.prompt_tokens, &turn.response_tokens}) {
    if (std::ranges::any_of(*tokens, [](int64_t token) { return token < 0; }))
      fail(ErrorKind::kUsage, "{}: a negative token", where);
  }
  turn.log_probs = in.array<float>(response, where);
  if (std::ranges::any_of(turn.log_probs, [](float value) { return !std::isfinite(value); }))
    fail(ErrorKind::kUsage, "{}: a log-probability that is not finite", where);
  if (runs > in.left() / kRunBytes) fail(ErrorKind::kUsage, "{}: {} runs of versions", where, runs);
  turn.weight_versions.clear();
  turn.weight_versions.reserve(response);
  for (uint32_t run = 0; run < runs; ++run) {
    const auto version = in.value<int64_t>(where);
    const auto tokens = in.value<uint32_t>(where);
    if (tokens > response - turn.weight_versions.size())
      fail(ErrorKind::kUsage, "{}: more weight versions than tokens", where);
    turn.weight_versions.insert(turn.weight_versions.end(), tokens, version);
  }
  if (turn.weight_versions.size() != response)
    fail(ErrorKind::kUsage, "{}: {} weight versions of {} tokens", where, turn.weight_versions.size(), response);
}

}  // namespace

std::string token_record(const Trajectory& trajectory) {
  BinaryWriter out;
  out.value(static_cast<uint32_t>(trajectory.turns.size()));
  std::vector<int64_t> last;
  for (const Turn& turn : trajectory.turns) {
    write(out, turn, last);
    last = before(turn);
  }
  return out.take();
}

void add_tokens(Trajectory& transcript, std::string_view record) {
  const std::string where = fmt::format("the tokens of trajectory '{}'", transcript.id);
  BinaryReader in(record);
  const auto turns = in.value<uint32_t>(where);
  if (turns != transcript.turns.size() || turns > in.left() / kLeastTurn + (turns == 0))
    fail(ErrorKind::kUsage, "{}: {} turns, the transcript has {}", where, turns, transcript.turns.size());
  std::vector<int64_t> last;
  for (Turn& turn : transcript.turns) {
    read(in, turn, last, where);
    last = before(turn);
  }
  if (in.left() > 0) fail(ErrorKind::kUsage, "{}: {} bytes are left over", where, in.left());
}

}  // namespace tritonforge::rollout
