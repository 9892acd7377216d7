#pragma once
// One step of a build. Rows go through it block by block: first work() on each row that is left, on several threads at
// once, then decide() on each in the rows' order. So work() may look at its row alone, and what a stage makes of a row
// depends on the configuration and on the rows before it, never on threads or blocks.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "base/filesystem.h"
#include "contract/problem.h"
#include "contract/rollout.h"
#include "dataset/build/row.h"

namespace tritonforge::dataset {

class Stage {
 public:
  explicit Stage(std::string name) : name_(std::move(name)) {}
  virtual ~Stage() = default;
  const std::string& name() const { return name_; }
  virtual void work(Row&) {}
  virtual void decide(Row&) {}
  virtual int threads() const { return 0; }  // at once in work(); 0 = one a core
  // What the card says of it beside the counts; {} for nothing.
  virtual Json report() const { return Json::object(); }

 protected:
  // What a server answered for a row; a row that it refuses is dropped with its words. Throws where it is not there, or
  // was waited for in vain: without the server every row would go, and a build that is begun again goes on. Throws also
  // where it refuses each of the first rows: a wrong key or model is no fault of theirs.
  template <typename T>
  std::optional<T> taken(Result<T> reply, Row& row, const char* refusal) {
    if (reply.ok()) {
      answered_ = true;
      return std::move(reply).value();
    }
    const ErrorKind kind = reply.error().kind();
    const bool gone = kind == ErrorKind::kUnavailable || kind == ErrorKind::kTimeout || kind == ErrorKind::kBusy;
    const bool refuses_all = !gone && !answered_ && ++refused_ >= kRefusedAtFirst;
    if (gone || refuses_all) throw Error(reply.error());
    row.drop(name_, refusal, reply.error().what());
    return std::nullopt;
  }

 private:
  static constexpr int kRefusedAtFirst = 20;
  const std::string name_;
  std::atomic<bool> answered_ = false;
  std::atomic<int> refused_ = 0;
};

// The texts that RL uses, and who judges and teaches: rollout and the command own them.
struct StageTools {
  std::function<std::vector<tokenizer::Message>(PromptStyle, const Problem&)> first_messages;
  std::function<tokenizer::Message(const std::string& code)> answer_message;
  std::function<std::string(const std::string& answer)> code_of;  // "" where there is none
  // A solution that TorchInductor printed, as a person would write it, or why not in one line (kUnsupported); what is
  // behind a colon is particular to the row. Called by several threads at once; the first call may take seconds.
  std::function<Result<std::string>(const std::string& solution)> rewrite;
  // A verdict on a candidate by one of the evaluators; called by several threads at once. `urls` may be empty: one is
  // started. A verdict of which the evaluator is not sure (it was too busy, it fell over) is an Error.
  using Judge = std::function<Result<Verdict>(const std::string& problem, const std::string& candidate)>;
  std::function<Judge(const std::vector<std::string>& urls, int64_t trials, double timeout_s, int64_t at_once)> judge;
  // The thought of a teacher: an answer of a server with OpenAI's chat completions; "" where it was cut off.
  using Ask = std::function<Result<std::string>(const std::vector<tokenizer::Message>& messages)>;
  std::function<Ask(const std::string& url, const std::string& model)> teacher;
};

struct NoOptions {  // of stages and outputs that have none
  template <typename V>
  void describe(V&) {}
};

struct StageContext {
  StageTools tools;
  fs::path output;  // where a stage may keep what it must not do twice
  uint64_t seed = 0;
  fs::path tokenizer;
  std::shared_ptr<const tokenizer::ChatCodec> codec;  // of `tokenizer`; null without one
  bool enable_thinking = true;
  bool has_tokens = false;  // of each row: the stage 'tokens' is among those before

  // Throws kUsage naming `reader`.
  void need_tokens(const std::string& reader) const;
};

// name: clean | convert | thinking | tokens | length | quality | dedup | contamination | split. Throws kUsage naming
// the option.
std::unique_ptr<Stage> make_stage(const std::string& name, const YAML::Node& options, const std::string& where,
                                  const StageContext& context);
std::vector<std::string> stage_names();

}  // namespace tritonforge::dataset
