#include "weights/tcp.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace tritonforge::weights {

FetchedFile::FetchedFile(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED)
    fail(ErrorKind::kMachine, "no memory for {} MiB of weights: {}", bytes >> 20, std::strerror(errno));
  ::madvise(begin, bytes, MADV_HUGEPAGE);  // a system without them has small ones
  begin_ = static_cast<std::byte*>(begin);
}

FetchedFile::~FetchedFile() {
  if (begin_ != nullptr) ::munmap(begin_, size_);
}

StagedWeights fetch_weights(const model::Parts& model, const PublishedWeights& weights, const std::string& key,
                            Deadline deadline) {
  const auto start = Clock::now();
  const std::string where = fmt::format("weights {} of {}:{}", weights.version, weights.tcp->host, weights.tcp->port);
  // Of fp64 at the most; the header has a line for each tensor.
  const uint64_t most = model.elements() * 8 + (uint64_t{64} << 20);
  std::shared_ptr<FetchedFile> file;
  const auto place = [&](uint64_t total) {
    if (total > most)
      fail(ErrorKind::kCorrupt, "{}: {} bytes, this model's weights have at most {}", where, total, most);
    file = std::make_shared<FetchedFile>(total);
    return file->bytes();
  };
  net::bulk_fetch({.host = weights.tcp->host,
                   .port = weights.tcp->port,
                   .key = key,
                   .version = static_cast<uint64_t>(weights.version),
                   .tls = net::bulk_tls()},
                  place, deadline);
  const double seconds = seconds_since(start);
  log::info("{}: {} MiB in {:.3f} s", where, file->bytes().size() >> 20, seconds);
  const auto files = std::make_shared<std::deque<model::SafetensorsFile>>();
  files->emplace_back(where, file->bytes(), file);
  return stage_files(model, files, weights.checksums);
}

}  // namespace tritonforge::weights
