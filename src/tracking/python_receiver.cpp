#include "tracking/python_receiver.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/checksum.h"
#include "base/named_enum.h"
#include "tracking/event_file.h"

namespace tritonforge::tracking {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail(ErrorKind::kUnavailable, "pipe: {}", std::strerror(errno));
    read = ends[0];
    write = ends[1];
  }
};

class TensorboardReceiver : public Receiver {
 public:
  explicit TensorboardReceiver(const fs::path& run) : file_(run / "tensorboard") {}
  void put(const Point& point) override { file_.put(point); }
  bool flush() override {
    file_.flush();
    return true;
  }
  void finish() override { file_.flush(); }

 private:
  EventFile file_;
};

}  // namespace

PythonReceiver::PythonReceiver(const Destination& destination, const fs::path& run)
    : name_(name_of(destination.target)) {
  const fs::path recipe = run / "recipe.yaml";
  // The same run again, also after --resume: by its folder.
  const Json start = {{"target", name_},
                      {"project", destination.project},
                      {"id", checksum(fs::absolute(run).string()).substr(0, 16)},
                      {"name", fs::absolute(run).lexically_normal().filename().string()},
                      {"folder", (fs::absolute(run) / "tracking").string()},
                      {"recipe", fs::exists(recipe) ? read_file(recipe) : ""}};
  const Pipe in, out;
  to_child_ = in.write;
  from_child_ = out.read;
  ::signal(SIGPIPE, SIG_IGN);  // a child that ended is told by write()
  try {
    child_.emplace(ProcessOptions{.argv = {destination.python.string(), "-c", std::string(python_receiver_py)},
                                  .stdin_fd = in.read,
                                  .stdout_fd = out.write});
  } catch (...) {
    for (const int fd : {in.read, in.write, out.read, out.write}) ::close(fd);
    throw;
  }
  ::close(in.read);
  ::close(out.write);
  send(start);
  expect_answer();
}

PythonReceiver::~PythonReceiver() {
  if (to_child_ >= 0) ::close(to_child_);
  ::close(from_child_);
}

void PythonReceiver::send(const Json& line) {
  const std::string text = line.dump() + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t part = ::write(to_child_, text.data() + sent, text.size() - sent);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) {
      expect_answer();  // what it ended with
      return;
    }
    sent += static_cast<size_t>(part);
  }
}

// Waits as long as the receiver takes: whoever started this process decides how long that may be.
Json PythonReceiver::expect_answer() {
  char buffer[4096];
  while (partial_.find('\n') == std::string::npos) {
    const ssize_t got = ::read(from_child_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(ErrorKind::kUnavailable, "{}: its Python ended without an answer (its message is above)", name_);
    partial_.append(buffer, static_cast<size_t>(got));
  }
  const size_t end = partial_.find('\n');
  const Json answer = parse_json_or_discard(partial_.substr(0, end));
  partial_.erase(0, end + 1);
  if (answer.is_object() && answer.contains("missing")) fail(ErrorKind::kMachine, "{}", answer.value("missing", ""));
  if (!answer.is_object() || answer.contains("error"))
    fail(ErrorKind::kUnavailable, "{}: {}", name_, answer.is_object() ? answer.value("error", "") : answer.dump());
  return answer;
}

void PythonReceiver::put(const Point& point) {
  Json values = Json::object();
  for (const auto& [key, value] : point.values) values[key] = value;
  Json axes = Json::object();
  for (const auto& [key, value] : point.values) axes[std::string(axis_of(key))] = point.step;
  send({{"step", point.step}, {"time", point.time}, {"axes", axes}, {"values", values}});
}

bool PythonReceiver::flush() {
  send({{"flush", true}});
  return expect_answer().value("flushed", false);
}

void PythonReceiver::finish() {
  send({{"finish", true}});
  expect_answer();
  ::close(std::exchange(to_child_, -1));
  child_->wait(Deadline::after(60));
}

std::unique_ptr<Receiver> make_receiver(const Destination& destination, const fs::path& run) {
  if (destination.target == Target::kTensorboard) return std::make_unique<TensorboardReceiver>(run);
  return std::make_unique<PythonReceiver>(destination, run);
}

}  // namespace tritonforge::tracking
