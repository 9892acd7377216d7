#include "base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "base/log_diverted.h"

namespace tritonforge::log {
namespace {

// stderr, or whoever takes the lines meanwhile.
class Output : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void divert(std::function<void(std::string)> print) {
    std::lock_guard lock(mutex_);
    print_ = std::move(print);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!print_) return stderr_.log(message);
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    print_(std::string(line.data(), line.size() - 1));
  }
  void flush_() override { stderr_.flush(); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    stderr_.set_formatter(formatter->clone());
    formatter_ = std::move(formatter);
  }
  spdlog::sinks::stderr_color_sink_st stderr_;
  std::function<void(std::string)> print_;
};

const std::shared_ptr<Output>& output() {
  static const auto made = std::make_shared<Output>();
  return made;
}

// spdlog takes a level that it does not know for none at all: no error would be told any more.
spdlog::level::level_enum level_of_environment() {
  const char* given = std::getenv("TRITONFORGE_LOG");
  const std::string name = given && *given ? given : "info";
  const auto level = spdlog::level::from_str(name);
  if (level == spdlog::level::off && name != "off")
    fail(ErrorKind::kUsage, "TRITONFORGE_LOG: unknown level '{}'{}", name,
         nearest_hint(name, {"trace", "debug", "info", "warn", "error", "critical", "off"}));
  return level;
}

}  // namespace

void start(const std::string& role) {
  const auto level = level_of_environment();
  auto logger = std::make_shared<spdlog::logger>(role, output());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%L%$ [%n] %v");
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

Diverted::Diverted(std::function<void(std::string line)> print) { output()->divert(std::move(print)); }

Diverted::~Diverted() { output()->divert(nullptr); }

}  // namespace tritonforge::log
