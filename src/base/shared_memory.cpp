#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/file_lock.h"

namespace tritonforge {
namespace {

constexpr char kPrefix[] = "tritonforge-";
constexpr char kOwner[] = ".owner";

bool is_same_file(int fd, const fs::path& path) {
  struct stat opened{}, there{};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &there) == 0 && opened.st_ino == there.st_ino &&
         opened.st_dev == there.st_dev;
}

// Removes the folder where nobody holds its owner's file.
bool remove_unowned(const fs::path& folder) {
  const int fd = ::open((folder / kOwner).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  std::error_code error;
  const bool unowned = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && fs::remove_all(folder, error) > 0 && !error;
  ::close(fd);
  return unowned;
}

}  // namespace

fs::path SharedFolder::usual_parent() {
  const char* shared = std::getenv("TRITONFORGE_SHARED");
  return shared && *shared ? shared : "/dev/shm";
}

SharedFolder::SharedFolder(const std::string& name, const fs::path& parent) : path_(parent / (kPrefix + name)) {
  const fs::path owner = path_ / kOwner;
  // Whoever removes the folder holds the file alone: where it went between open and lock, it is made anew.
  do {
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
      fail(ErrorKind::kMachine, "cannot create {}: {}", path_.string(), std::strerror(errno));
    owner_ = Descriptor(::open(owner.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (owner_.get() < 0 && errno != ENOENT)
      fail(ErrorKind::kMachine, "cannot create {}: {}", owner.string(), std::strerror(errno));
    if (owner_.get() >= 0) lock_file(owner_.get(), LOCK_SH, path_);
  } while (owner_.get() < 0 || !is_same_file(owner_.get(), owner));
}

SharedFolder::~SharedFolder() {
  owner_ = Descriptor();
  remove_unowned(path_);
}

std::vector<fs::path> SharedFolder::sweep(const fs::path& parent, const std::string& name) {
  std::vector<fs::path> swept;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const fs::path& folder = entry.path();
    struct stat info{};
    if (!folder.filename().string().starts_with(kPrefix + name) || ::lstat(folder.c_str(), &info) != 0) continue;
    if (!S_ISDIR(info.st_mode) || info.st_uid != ::getuid()) continue;
    const bool young = std::time(nullptr) - info.st_mtime < 60;
    const bool gone = fs::exists(folder / kOwner) ? remove_unowned(folder)
                                                  : !young && fs::remove_all(folder, error) > 0 && !error;
    if (gone) swept.push_back(folder);
  }
  return swept;
}

}  // namespace tritonforge
