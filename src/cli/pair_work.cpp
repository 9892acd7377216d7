#include "cli/pair_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output.h"
#include "net/key.h"
#include "net/retry.h"

namespace tritonforge::cli {
namespace {

// A busy evaluator (429, 503 with Retry-After) is asked again; anything else that is no verdict ends the making.
Result<Verdict> evaluate_over_http(net::HttpClient& client, const std::string& url, int trials,
                                   const std::string& problem, const std::string& candidate) {
  const Json body{{"problem", {{"id", "generated"}, {"source", problem}}},
                  {"candidate", candidate},
                  {"num_correct_trials", trials},
                  {"measure_performance", false},
                  {"backend", "triton"},
                  {"targets", {"sm_90", "gfx942"}},  // what is taught runs on either
                  {"timeout_s", 60}};
  const auto ask = [&]() -> Result<Verdict> {
    const auto reply = client.post_json(url + "/v2/evaluations", body);
    if (!reply.ok()) return reply.error();
    try {
      return verdict_from_json(*reply);
    } catch (const Error& error) {
      return error;
    }
  };
  const auto is_busy = [](const Error& error) { return error.retry_after_s() > 0; };
  return net::retry<Verdict>(url + " to have a free worker", Deadline::after(300), ask, {.again = is_busy});
}

}  // namespace

PairEvaluator::PairEvaluator(const Judging& judging, int workers)
    : trials_(judging.trials),
      url_(judging.evaluator),
      client_({.timeout_s = 120, .api_key = net::key_from({}, net::kPeerKeyVariable)}) {
  if (judging.unverified) {
    url_.clear();
  } else if (url_.empty()) {
    own_ = std::make_unique<OwnEvaluator>(workers);
    url_ = own_->url();
  } else {
    net::wait_until_healthy(url_ + "/health", Deadline::after(30));
  }
}

dataset::EvaluatePair PairEvaluator::ask() {
  if (url_.empty()) return {};
  return [this](const std::string& problem, const std::string& candidate) {
    return evaluate_over_http(client_, url_, trials_, problem, candidate);
  };
}

dataset::ConversationTexts conversation_texts(PromptStyle prompt) {
  return {.first = [=](const Problem& problem) { return rollout::first_messages(prompt, problem); },
          .feedback = [=](const Verdict& verdict) { return rollout::feedback_message(prompt, verdict); },
          .answer = [](const std::string& code) { return rollout::answer_message(code); }};
}

PairFile::PairFile(fs::path output) : output_(std::move(output)), unfinished_(output_.string() + ".part") {
  make_room_for(output_);
}

void PairFile::open() {
  const std::lock_guard lock(mutex_);
  file_.open(unfinished_, std::ios::trunc);
  if (!file_) fail(ErrorKind::kUnavailable, "{}: cannot be written", unfinished_.string());
}

void PairFile::write(const dataset::Pair& pair, bool messages) {
  Json line = to_json(pair);
  if (!messages) line.erase("messages");
  const std::lock_guard lock(mutex_);
  file_ << line.dump() << '\n' << std::flush;
  check();
  ++written_;
}

void PairFile::finish() {
  const std::lock_guard lock(mutex_);
  file_.close();
  check();
  fsync_path(unfinished_);
  fs::rename(unfinished_, output_);
  finished_ = true;
}

void PairFile::tell_stopped(int signal) {
  mutex_.lock();  // until the process ends
  cli::tell_stopped(signal, kept());
}

std::string PairFile::kept() const {
  const std::string place = fs::absolute(finished_ ? output_ : unfinished_).string();
  if (finished_) return fmt::format("all of the {} pairs are in {}", written_, place);
  if (written_ == 0) return "no pair was written yet";
  return fmt::format("the first {} pairs are in {}; the same command begins anew and overwrites them", written_, place);
}

void PairFile::check() const {
  if (!file_) fail(ErrorKind::kUnavailable, "{}: cannot be written (disk full?)", unfinished_.string());
}

void print_counts(std::string_view title, const std::map<std::string, size_t>& counts, size_t most) {
  std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  fmt::print("{}\n", title);
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i)
    fmt::print("  {:6}  {}\n", sorted[i].second, sorted[i].first);
  if (sorted.size() > most) fmt::print("  {:>6}  more\n", sorted.size() - most);
}

}  // namespace tritonforge::cli
