#pragma once
// Equal evaluations that are asked for at the same time: the first is made, the others are given its verdict. Samples
// of one group are often equal to the letter. Thread-safe.
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "contract/verdict.h"
#include "evaluate/client.h"
#include "evaluate/request.h"

namespace tritonforge::evaluate {

// The same for evaluations that have the same verdict coming: all of a request but the name of its problem, its limit
// of time, too, since what has less of it is cut short.
std::string key_of(const EvaluationRequest& request, EvaluationMode mode);

class Alike {
  struct UnderWay {
    bool ended = false;
    std::optional<Verdict> verdict;  // none, though ended: it could not be made
  };

 public:
  class Place {
   public:
    // Waits, until the client's deadline, for the verdict of an equal evaluation that is under way. Where that one has
    // none, or there is none, this one is the first of its kind. Throws kTimeout.
    Place(Alike& all, const std::string& key, const Client& client);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // Of the other one; none: the caller makes its own, and tells it.
    const std::optional<Verdict>& known() const { return known_; }
    void tell(const Verdict& verdict);

   private:
    Alike& all_;
    const std::string key_;
    std::shared_ptr<UnderWay> own_;
    std::optional<Verdict> known_;
  };

  int waiting();

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  int waiting_ = 0;
  std::map<std::string, std::shared_ptr<UnderWay>> under_way_;
};

}  // namespace tritonforge::evaluate
