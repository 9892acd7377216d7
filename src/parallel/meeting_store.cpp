#include "parallel/meeting_store.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::parallel {
namespace {

using Milliseconds = std::chrono::milliseconds;

class MeetingStore : public c10d::Store {
 public:
  MeetingStore(Meeting& meeting, std::string prefix, Milliseconds timeout)
      : c10d::Store(timeout), meeting_(meeting), prefix_(std::move(prefix)) {}
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<MeetingStore>(meeting_, prefix_, timeout_);
  }
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    meeting_.put(name(key), std::string(value.begin(), value.end()));
  }
  std::vector<uint8_t> get(const std::string& key) override {
    const std::string bytes = meeting_.get(name(key), deadline(timeout_));
    return {bytes.begin(), bytes.end()};
  }
  int64_t add(const std::string& key, int64_t value) override { return meeting_.add(name(key), value); }
  bool deleteKey(const std::string& key) override {
    meeting_.remove(name(key));
    return true;
  }
  bool check(const std::vector<std::string>& keys) override {
    return std::ranges::all_of(keys, [&](const std::string& key) { return meeting_.look(name(key), 0).has_value(); });
  }
  int64_t getNumKeys() override { fail(ErrorKind::kUnsupported, "the meeting does not count its names"); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const Milliseconds& timeout) override {
    for (const std::string& key : keys) meeting_.get(name(key), deadline(timeout));
  }

 private:
  static Deadline deadline(Milliseconds timeout) {
    return Deadline::after(std::chrono::duration<double>(timeout).count());
  }
  std::string name(const std::string& key) const {  // what an URL may hold
    std::string hex = prefix_ + "-";
    for (const char byte : key) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return hex;
  }
  Meeting& meeting_;
  const std::string prefix_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> meeting_store(Meeting& meeting, std::string prefix, double timeout_s) {
  return c10::make_intrusive<MeetingStore>(meeting, std::move(prefix),
                                           Milliseconds(static_cast<int64_t>(timeout_s * 1e3)));
}

}  // namespace tritonforge::parallel
