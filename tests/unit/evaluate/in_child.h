#pragma once
// What a process of its own finds, for what cannot be taken back.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "base/json.h"

namespace tritonforge {

// Runs `body` in a child that `fork` makes, and gives what it found.
inline Json in_child(const std::function<Json()>& body, const std::function<pid_t()>& fork = ::fork) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    ::close(ends[0]);
    std::string text;
    try {
      text = body().dump();
    } catch (const std::exception& error) {
      text = Json{{"thrown", error.what()}}.dump();
    }
    const bool whole = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(whole ? 0 : 9);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "wait status " << status;
  const Json found = Json::parse(text, nullptr, false);
  if (!found.is_object()) return {{"thrown", "no answer, wait status " + std::to_string(status)}};
  EXPECT_FALSE(found.contains("thrown")) << found.dump();
  return found;
}

}  // namespace tritonforge
