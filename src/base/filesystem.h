#pragma once
// Files: whole-file reads, durable atomic writes, private temporary folders, read-only maps.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge {
namespace fs = std::filesystem;

// All throw kNotFound, kUsage (a folder) or kCorrupt (the disk does not give it) naming the path.
std::string read_file(const fs::path& path);
void read_pieces(const fs::path& path, const std::function<void(std::string_view piece)>& take);  // the same in parts
// Of a program: without the byte order mark that editors on Windows put before it.
std::string read_source(const fs::path& path);

// Writes beside `path`, fsyncs, renames over it: a reader sees the old or the new file, never a part. Throws
// kUnavailable with the reason (disk full, ...) and leaves the old file as it was.
void write_file_atomic(const fs::path& path, std::string_view content);

// Removes what a killed write_file_atomic left in `folder` of files with these endings (".json"). For a folder in which
// nobody writes such a file at this moment.
void remove_unfinished(const fs::path& folder, const std::vector<std::string>& endings);

// On the disk when it returns. What a failed or killed append left of a line is cut off by the next one, so that every
// line but the last is whole; one writer at a time.
void append_line_durable(const fs::path& path, std::string_view line);

void fsync_path(const fs::path& path);  // a file or a folder

// A reader sees the old folder or the new one at every moment; afterwards `fresh` is the old one, where there was one.
// (On a file system that cannot exchange two names, NFS, there is none of either for an instant.) Throws kUnavailable.
void put_in_place(const fs::path& fresh, const fs::path& folder);

// The names in `folder` that `wanted` holds for, sorted: what a name that is not there is compared with
// (nearest_hint). Empty where there is no such folder.
std::vector<std::string> names_in(const fs::path& folder, const std::function<bool(const fs::path&)>& wanted);

// A private folder (mode 0700), removed with its content at the end.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string_view prefix, const fs::path& parent = fs::temp_directory_path());
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A file mapped read-only. Throws kNotFound / kCorrupt.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tritonforge
