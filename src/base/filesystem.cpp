#include "base/filesystem.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/nearest.h"

namespace tritonforge {
namespace {

constexpr const char* kUnfinished = ".tmp-";  // behind the name of what will be renamed to it

void write_all(int fd, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(ErrorKind::kUnavailable, "cannot write {}: {}", path.string(), std::strerror(errno));
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
}

// The bytes of a file's whole lines: without what a writer that died, or a full disk, left of its last one.
off_t end_of_lines(int fd, const fs::path& path) {
  std::array<char, 4096> block;
  off_t end = ::lseek(fd, 0, SEEK_END);
  while (end > 0) {
    const off_t from = std::max<off_t>(0, end - static_cast<off_t>(block.size()));
    const ssize_t got = ::pread(fd, block.data(), static_cast<size_t>(end - from), from);
    if (got != end - from) fail(ErrorKind::kUnavailable, "cannot read {}: {}", path.string(), std::strerror(errno));
    const size_t newline = std::string_view(block.data(), static_cast<size_t>(got)).rfind('\n');
    if (newline != std::string_view::npos) return from + static_cast<off_t>(newline) + 1;
    end = from;
  }
  return 0;
}

}  // namespace

void read_pieces(const fs::path& path, const std::function<void(std::string_view piece)>& take) {
  constexpr size_t kPiece = size_t{1} << 18;
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.get() < 0) {
    const std::string reason = std::strerror(errno);
    fail(ErrorKind::kNotFound, "cannot read {}: {}{}", path.string(), reason, nearest_path_hint(path));
  }
  const auto piece = std::make_unique_for_overwrite<char[]>(kPiece);
  while (true) {
    const ssize_t got = ::read(file.get(), piece.get(), kPiece);
    if (got == 0) return;
    if (got > 0) take({piece.get(), static_cast<size_t>(got)});
    else if (errno == EISDIR) fail(ErrorKind::kUsage, "{} is a folder; a file is needed", path.string());
    else if (errno != EINTR) fail(ErrorKind::kCorrupt, "cannot read {}: {}", path.string(), std::strerror(errno));
  }
}

std::string read_file(const fs::path& path) {
  std::string text;
  read_pieces(path, [&](std::string_view piece) { text += piece; });
  return text;
}

std::string read_source(const fs::path& path) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  std::string text = read_file(path);
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  return text;
}

void fsync_path(const fs::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.get() < 0 || ::fsync(file.get()) != 0) {
    fail(ErrorKind::kUnavailable, "cannot sync {}: {}", path.string(), std::strerror(errno));
  }
}

void put_in_place(const fs::path& fresh, const fs::path& folder) {
  const auto renamed = [](const fs::path& from, const fs::path& to) { return ::rename(from.c_str(), to.c_str()) == 0; };
  const auto failed = [&] {
    fail(ErrorKind::kUnavailable, "cannot replace {}: {}", folder.string(), std::strerror(errno));
  };
  if (renamed(fresh, folder)) return;  // nothing there, or an empty folder
  if (errno != ENOTEMPTY && errno != EEXIST) failed();
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) failed();
  const fs::path aside = fresh.string() + ".old";
  if (!renamed(folder, aside)) failed();
  if (!renamed(fresh, folder)) {
    const int reason = errno;
    renamed(aside, folder);
    errno = reason;
    failed();
  }
  if (!renamed(aside, fresh)) failed();
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  std::string temporary = path.string() + kUnfinished + "XXXXXX";
  const Descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.get() < 0) fail(ErrorKind::kUnavailable, "cannot create {}: {}", temporary, std::strerror(errno));
  try {
    write_all(file.get(), content, path);
    if (::fchmod(file.get(), 0644) != 0 || ::fsync(file.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
      fail(ErrorKind::kUnavailable, "cannot write {}: {}", path.string(), std::strerror(errno));
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  fsync_path(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

void remove_unfinished(const fs::path& folder, const std::vector<std::string>& endings) {
  constexpr size_t kDrawn = 6;  // letters, by mkostemp
  const auto is_unfinished = [&](const fs::path& path) {
    const std::string name = path.filename().string();
    return std::ranges::any_of(endings, [&](const std::string& ending) {
      const std::string mark = ending + kUnfinished;
      const size_t at = name.rfind(mark);
      return at != std::string::npos && at + mark.size() + kDrawn == name.size() && fs::is_regular_file(path);
    });
  };
  for (const std::string& name : names_in(folder, is_unfinished)) fs::remove(folder / name);
}

void append_line_durable(const fs::path& path, std::string_view line) {
  const Descriptor file{::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644)};
  if (file.get() < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", path.string(), std::strerror(errno));
  const off_t end = end_of_lines(file.get(), path);
  if (end < ::lseek(file.get(), 0, SEEK_END) && ::ftruncate(file.get(), end) != 0)
    fail(ErrorKind::kUnavailable, "cannot cut a broken last line off {}: {}", path.string(), std::strerror(errno));
  write_all(file.get(), std::string(line) + "\n", path);
  if (::fdatasync(file.get()) != 0)
    fail(ErrorKind::kUnavailable, "cannot sync {}: {}", path.string(), std::strerror(errno));
}

std::vector<std::string> names_in(const fs::path& folder, const std::function<bool(const fs::path&)>& wanted) {
  std::vector<std::string> names;
  if (!fs::is_directory(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    if (wanted(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TemporaryFolder::TemporaryFolder(std::string_view prefix, const fs::path& parent) {
  std::string name = (parent / (std::string(prefix) + ".XXXXXX")).string();
  if (!::mkdtemp(name.data())) fail(ErrorKind::kUnavailable, "cannot create {}: {}", name, std::strerror(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // nothing sensible can be done about a leftover in a destructor
  fs::remove_all(path_, ignored);
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.get() < 0) fail(ErrorKind::kNotFound, "cannot open {}: {}", path.string(), std::strerror(errno));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0)
    fail(ErrorKind::kCorrupt, "cannot stat {}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::kNotFound, "{} is not a file", path.string());
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (map == MAP_FAILED) fail(ErrorKind::kUnavailable, "cannot map {}: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(map);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace tritonforge
