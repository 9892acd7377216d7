#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "evaluate/sandbox/layers.h"

namespace tritonforge::sandbox {
namespace {

// The kernel's interface, spelled out because the distribution's header is older than the kernels we run on.
struct RulesetAttributes {
  uint64_t fs, net, scoped;
};
struct [[gnu::packed]] PathRule {
  uint64_t allowed;
  int32_t parent;
};
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3, kTruncate = 1 << 14,
                   kIoctlDevice = 1 << 15;
constexpr uint64_t kAllV1 = (1 << 13) - 1, kRefer = 1 << 13;
constexpr uint64_t kFileOnly = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;
constexpr uint64_t kBindTcp = 1, kConnectTcp = 2, kAbstractSockets = 1, kSignals = 2;

long create(const RulesetAttributes* attributes, size_t size, uint32_t flags) {
  return syscall(444, attributes, size, flags);
}

bool allow(int ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  struct stat status{};
  if (fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode)) rights &= kFileOnly;
  const PathRule rule{rights, fd};
  const bool ok = syscall(445, ruleset, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &rule, 0) == 0;
  close(fd);
  return ok;
}

}  // namespace

std::string restrict_files(const Json& options) {
  const long abi = create(nullptr, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
  if (abi < 1) return std::string("unavailable: ") + std::strerror(errno);
  RulesetAttributes attributes{kAllV1, 0, 0};
  if (abi >= 2) attributes.fs |= kRefer;
  if (abi >= 3) attributes.fs |= kTruncate;
  if (abi >= 5) attributes.fs |= kIoctlDevice;
  if (abi >= 4) attributes.net = kBindTcp | kConnectTcp;
  if (abi >= 6) attributes.scoped = kAbstractSockets | kSignals;
  const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(create(&attributes, size, 0));
  if (ruleset < 0) return std::string("unavailable: create: ") + std::strerror(errno);
  const uint64_t read = kReadFile | kReadDir;
  const uint64_t device = (kReadFile | kWriteFile | kIoctlDevice | kTruncate) & attributes.fs;
  std::string failed;
  const auto rule = [&](const std::string& path, uint64_t rights) {
    if (!allow(ruleset, path, rights & attributes.fs)) failed += " " + path;
  };
  for (const auto& path : options.value("read_only", Json::array())) rule(path.get<std::string>(), read);
  for (const auto& path : options.value("exec", Json::array())) rule(path.get<std::string>(), read | kExecute);
  for (const auto& path : options.value("devices", Json::array())) rule(path.get<std::string>(), device | kReadDir);
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full"}) rule(path, device);
  for (const char* path : {"/dev/random", "/dev/urandom"}) rule(path, read);
  // cuInit writes its threads' names below /proc, with fopen's "w" (so it truncates); the process's own /proc holds
  // nothing else that can be written.
  rule("/proc", options.value("devices", Json::array()).empty() ? read : read | kWriteFile | kTruncate);
  uint64_t own = attributes.fs & ~kExecute;
  if (options.value("processes", false)) own |= kExecute;
  rule(options.at("folder").get<std::string>(), own);
  rule("/dev/shm", attributes.fs & ~kExecute);
  const long result = syscall(446, ruleset, 0);
  const int error = errno;
  close(ruleset);
  if (result != 0) return std::string("unavailable: ") + std::strerror(error);
  std::string text = "enforced: ABI " + std::to_string(abi) + (abi >= 4 ? ", no TCP" : "") +
                     (abi >= 6 ? ", scoped signals" : "");
  return failed.empty() ? text : text + "; no rule for" + failed;
}

}  // namespace tritonforge::sandbox
