#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "evaluate/sandbox/layers.h"

namespace tritonforge::sandbox {
namespace {
namespace fs = std::filesystem;

// linux/mount.h of older headers lacks these.
struct MountAttributes {
  uint64_t attr_set, attr_clr, propagation, userns_fd;
};
constexpr long kMountSetattr = 442;
constexpr uint64_t kReadOnly = 1, kNoSuid = 2;

std::string failure(const std::string& what) { return "unavailable: " + what + ": " + std::strerror(errno); }

// Shows `path` at the same place below `root`; a symbolic link is copied as a link.
bool bind_path(const fs::path& root, const fs::path& path, bool read_only) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (error || !fs::exists(status)) return true;  // absent here: nothing to show
  const fs::path target = root / path.relative_path();
  fs::create_directories(target.parent_path(), error);
  if (fs::is_symlink(status)) {
    if (!fs::exists(fs::symlink_status(target))) fs::create_symlink(fs::read_symlink(path), target, error);
    return true;
  }
  if (fs::is_directory(status)) {
    fs::create_directories(target, error);
  } else {
    const int fd = open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0) close(fd);
  }
  if (mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
  if (!read_only) return true;
  MountAttributes attributes{kReadOnly | kNoSuid, 0, 0, 0};
  if (syscall(kMountSetattr, AT_FDCWD, target.c_str(), 0x8000 /* AT_RECURSIVE */, &attributes, sizeof attributes) == 0)
    return true;
  return mount(nullptr, target.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) == 0;
}

}  // namespace

std::string build_root(const Json& options) {
  const fs::path root = options.at("root").get<std::string>(), folder = options.at("folder").get<std::string>();
  const bool executable = options.value("processes", false) || options.value("native", false);
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failure("private mounts");
  if (mount("tmpfs", root.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=0755") != 0)
    return failure("tmpfs root");
  for (const auto& item : options.value("read_only", Json::array())) {
    if (!bind_path(root, item.get<std::string>(), true)) return failure("bind " + item.get<std::string>());
  }
  for (const auto& item : options.value("devices", Json::array())) {
    if (!bind_path(root, item.get<std::string>(), false)) return failure("bind " + item.get<std::string>());
  }
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    if (!bind_path(root, device, false)) return failure(std::string("bind ") + device);
  }
  std::error_code error;
  fs::create_directories(root / "dev/shm", error);
  fs::create_directories(root / "proc", error);
  const fs::path job = root / folder.relative_path();
  fs::create_directories(job, error);
  const std::string size = "mode=0700,size=" + std::to_string(options.value("folder_bytes", uint64_t{256} << 20));
  if (mount("tmpfs", job.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | (executable ? 0 : MS_NOEXEC), size.c_str()) != 0)
    return failure("tmpfs job folder");
  if (mount("tmpfs", (root / "dev/shm").c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64m") != 0)
    return failure("tmpfs /dev/shm");
  std::string note = "enforced: own root, read-only system, private folder";
  if (mount("proc", (root / "proc").c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    note += std::string("; no /proc (") + std::strerror(errno) + ")";
  }
  if (chdir(root.c_str()) != 0 || syscall(SYS_pivot_root, ".", ".") != 0) return failure("pivot_root");
  if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) return failure("leaving the old root");
  mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr);
  return note;
}

}  // namespace tritonforge::sandbox
