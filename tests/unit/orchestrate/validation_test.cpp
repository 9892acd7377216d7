#include "orchestrate/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>

#include "base/filesystem.h"

namespace tritonforge::orchestrate {
namespace {

constexpr const char* kParts[] = {"config.json", "model.safetensors"};

void write_model(const fs::path& folder, const std::string& content) {
  fs::create_directories(folder);
  for (const char* part : kParts) write_file_atomic(folder / part, content + part);
}

// Which one the folder holds: "" for none, or for a part of one.
std::string model_in(const fs::path& folder) {
  for (const char* content : {"best ", "last "}) {
    bool whole = fs::exists(folder);
    for (const char* part : kParts)
      whole = whole && fs::exists(folder / part) && read_file(folder / part) == std::string(content) + part;
    if (whole) return content;
  }
  return "";
}

// `work` in a child that stops before and after each of its calls to the kernel: `look` sees what a kill there would
// leave, and the number of the call.
void watch_each_call(const std::function<void()>& work, const std::function<void(uint64_t call)>& look) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(9);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);  // or it says none of them
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    look(info.op == PTRACE_SYSCALL_INFO_ENTRY ? info.entry.nr : 0);
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  }
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(PutBestInPlace, StoppedAtAnyStepItLeavesTheOldModelOrTheNewOneWhole) {
  const TemporaryFolder folder("validation-test");
  const fs::path& models = folder.path();
  write_model(models / "best", "best ");
  write_model(models / "rl", "last ");
  write_model(models / "rl-last", "of an earlier start ");
  write_model(models / "rl.tmp", "of a start that was killed ");
  std::vector<std::string> seen;
  int synced_before = 0, synced_after = 0;
  watch_each_call([&] { put_best_in_place(models); },
                  [&](uint64_t call) {
                    const std::string is = model_in(models / "rl");
                    if (seen.empty() || seen.back() != is) seen.push_back(is);
                    if (call == SYS_fsync) (is == "last " ? synced_before : synced_after) += 1;
                  });
  EXPECT_THAT(seen, ::testing::ElementsAre("last ", "best "));
  EXPECT_EQ(model_in(models / "rl-last"), "last ");
  EXPECT_EQ(synced_before, 3);  // both files and their folder: a power loss, too, finds one of them whole
  EXPECT_GE(synced_after, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(models), fs::directory_iterator()), 3);
}

TEST(EarlierBestStep, IsWhatTheLastBestLineSaysUnlessRlEndedWithIt) {
  const TemporaryFolder folder("validation-test");
  RecipeConfig config;
  config.stages = {"rl", "bench"};
  config.rl.steps = 4;
  config.rl.validation.every = 2;
  const fs::path file = folder.path() / "validation.jsonl";
  const auto after = [&](const std::string& line) {
    append_line_durable(file, line);
    return earlier_best_step(config, folder.path());
  };
  EXPECT_EQ(earlier_best_step(config, folder.path()), std::nullopt);  // nothing was measured
  EXPECT_EQ(after(R"({"step": 0, "pass_rate": 0.25, "best": true})"), 0);
  EXPECT_EQ(after(R"({"step": 2, "pass_rate": 0.5, "best": true})"), 2);
  EXPECT_EQ(after(R"({"step": 4, "pass_rate": 0.25, "best": false})"), 2);
  config.rl.steps = 2;
  EXPECT_EQ(earlier_best_step(config, folder.path()), std::nullopt);
}

}  // namespace
}  // namespace tritonforge::orchestrate
