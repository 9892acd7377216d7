#include "parallel/peer_copies.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "base/log.h"
#include "base/shared_memory.h"
#include "net/key.h"

namespace tritonforge::parallel {
namespace {

using gpu::check_cuda;

constexpr const char* kYes = "yes";

// Tells whether two ranks are threads of one process.
uint64_t this_process() {
  static const uint64_t drawn = (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  return drawn;
}

// What a rank tells the others of memory that it lends.
struct Offer {
  gpu::IpcHandle handle;
  uint64_t process;
  int64_t bytes;
};

// "", or what was thrown.
template <typename F>
std::string why_not(const F& attempt) {
  try {
    attempt();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::vector<Share> pieces_of(const Share& of, int64_t longest) {
  std::vector<Share> pieces;
  for (int64_t done = 0; done < of.count; done += longest)
    pieces.push_back({of.begin + done, std::min(longest, of.count - done)});
  return pieces;
}

// A number for each pair of ranks, in memory that all of them share with their GPUs. A cache line each.
class PeerCopies::Flags {
 public:
  Flags(const fs::path& file, int64_t ranks, bool make) : ranks_(ranks) {
    const Descriptor fd(::open(file.c_str(), O_RDWR | O_CLOEXEC | (make ? O_CREAT | O_EXCL : 0), 0600));
    // All of it now: a page that is missing later would end the process.
    const int full = fd.get() < 0 ? errno : make ? ::posix_fallocate(fd.get(), 0, kBytes) : 0;
    void* map = full == 0 ? ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0) : MAP_FAILED;
    if (map == MAP_FAILED)
      fail(ErrorKind::kUnavailable, "{}: {}", file.string(), std::strerror(full != 0 ? full : errno));
    memory_.reset(static_cast<std::byte*>(map));
    pinned_.emplace(std::span(memory_.get(), kBytes));
  }
  uint32_t* of(int64_t writer, int64_t reader) const {
    return reinterpret_cast<uint32_t*>(memory_.get() + (writer * ranks_ + reader) * kLine);
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr size_t kBytes = gpu::kMostRanks * gpu::kMostRanks * kLine;  // a page
  struct Unmap {
    void operator()(std::byte* memory) const { ::munmap(memory, kBytes); }
  };
  const int64_t ranks_;
  std::unique_ptr<std::byte, Unmap> memory_;
  std::optional<gpu::PinnedRange> pinned_;
};

PeerCopies::PeerCopies(std::string name, int64_t rank, int64_t size, int64_t unit, GroupPlace place)
    : api_(gpu::open_cuda_library()),
      name_(std::move(name)),
      rank_(rank),
      size_(size),
      unit_(unit),
      place_(std::move(place)),
      refused_(size > gpu::kMostRanks) {}

PeerCopies::~PeerCopies() {
  // What is under way still reads and is read. Of ranks that are gone, too: one that goes on after abandon() may set a
  // flag back to what it was to be.
  int done = 0;
  const Deadline deadline = Deadline::after(place_.timeout_s);
  while (api_.event_done(last_, &done) == 0 && done == 0 && !deadline.expired()) {
    if (abandoned_) release();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (const Lent& lent : lent_) close(lent);
}

std::vector<std::string> PeerCopies::exchange(std::string mine) {
  const auto key = [&](int64_t rank) { return fmt::format("copies-{}-{}-{}", name_, exchanges_, rank); };
  const Deadline deadline = Deadline::after(place_.timeout_s);
  place_.meeting.put(key(rank_), mine);
  std::vector<std::string> all;
  for (int64_t r = 0; r < size_; ++r) all.push_back(r == rank_ ? mine : place_.meeting.get(key(r), deadline));
  ++exchanges_;
  return all;
}

// They go by a file's name that rank 0 draws: who finds it is on its host.
std::string PeerCopies::make_flags() {
  std::optional<SharedFolder> folder;  // until all have it open
  fs::path file;
  const auto open = [&] { flags_ = std::make_unique<Flags>(file, size_, rank_ == 0); };
  std::string why;
  if (rank_ == 0) {
    why = why_not([&] {
      folder.emplace("copies-" + net::random_key(), "/dev/shm");
      file = folder->path() / "flags";
      open();
    });
  }
  file = exchange(rank_ == 0 ? file.string() : kYes)[0];
  if (rank_ != 0) why = why_not(open);
  if (why.empty()) why = why_not([&] { staging_ = gpu::DeviceMemory(kCopiesStaging); });
  exchange(kYes);
  return why;
}

std::string PeerCopies::map(const std::vector<std::string>& offers, Lent& lent) {
  for (int64_t r = 0; r < size_; ++r) {
    Offer offer{};
    TF_CHECK(offers[static_cast<size_t>(r)].size() == sizeof offer, "an offer of {} bytes",
             offers[static_cast<size_t>(r)].size());
    std::memcpy(&offer, offers[static_cast<size_t>(r)].data(), sizeof offer);
    TF_CHECK(offer.bytes == static_cast<int64_t>(lent.mine.nbytes()), "rank {} lends {} bytes, rank {} {}", r,
             offer.bytes, rank_, lent.mine.nbytes());
    if (r == rank_) {
      lent.of_ranks.push_back(static_cast<std::byte*>(lent.mine.mutable_data_ptr()));
      continue;
    }
    if (offer.process == this_process()) return fmt::format("rank {} is a thread of the same process", r);
    void* mapped = nullptr;
    if (const std::string why = why_not([&] { check_cuda(api_.ipc_open(&offer.handle, &mapped)); }); !why.empty())
      return fmt::format("the memory of rank {}: {}", r, why);
    lent.mapped.push_back(mapped);
    lent.of_ranks.push_back(static_cast<std::byte*>(mapped) + offer.handle.offset);
  }
  return "";
}

bool PeerCopies::lend(const at::Tensor& x) {
  if (refused_) return false;
  check_cuda(api_.set_device(x.device().index()));
  std::string why = flags_ == nullptr ? make_flags() : "";
  Offer offer{.handle = {}, .process = this_process(), .bytes = static_cast<int64_t>(x.nbytes())};
  if (why.empty()) why = why_not([&] { check_cuda(api_.ipc_get(x.mutable_data_ptr(), &offer.handle)); });
  Lent lent{.mine = x};
  const auto offers = exchange(std::string(reinterpret_cast<const char*>(&offer), sizeof offer));
  if (why.empty()) why = map(offers, lent);
  const auto answers = exchange(why.empty() ? kYes : why);
  const auto refusal = std::ranges::find_if(answers, [](const std::string& answer) { return answer != kYes; });
  if (refusal != answers.end()) {
    refused_ = true;
    close(lent);
    if (rank_ == 0)
      log::info("{}: by NCCL alone, rank {} does not copy from the others: {}", name_, refusal - answers.begin(),
                *refusal);
    return false;
  }
  lent_.push_back(std::move(lent));
  if (rank_ == 0) log::info("{}: {} MiB of each rank go by the copy engines", name_, x.nbytes() >> 20);
  return true;
}

void PeerCopies::close(const Lent& lent) const {
  for (void* mapped : lent.mapped) {
    if (api_.ipc_close(mapped) != 0) log::warn("{}: {}", name_, api_.last_error());
  }
}

const PeerCopies::Lent* PeerCopies::find(const at::Tensor& x) const {
  const auto* begin = static_cast<const std::byte*>(x.const_data_ptr());
  for (const Lent& lent : lent_) {
    const auto* mine = static_cast<const std::byte*>(lent.mine.const_data_ptr());
    if (begin >= mine && begin + x.nbytes() <= mine + lent.mine.nbytes()) return &lent;
  }
  return nullptr;
}

std::byte* PeerCopies::at(const Lent& lent, int64_t rank, const at::Tensor& x, int64_t element) const {
  const auto place = static_cast<const std::byte*>(x.const_data_ptr()) -
                     static_cast<const std::byte*>(lent.mine.const_data_ptr());
  return lent.of_ranks[static_cast<size_t>(rank)] + place + element * static_cast<int64_t>(x.element_size());
}

void PeerCopies::meet() {
  ++meetings_;
  for (int64_t r = 0; r < size_; ++r) {
    if (r != rank_) check_cuda(api_.stream_tell(flags_->of(rank_, r), meetings_, stream_));
  }
  for (int64_t r = 0; r < size_; ++r) {
    if (r != rank_) check_cuda(api_.stream_await(flags_->of(r, rank_), meetings_, stream_));
  }
  last_.record(stream_);
}

void PeerCopies::reduce_scatter(const at::Tensor& x) {
  const Lent& lent = *find(x);
  const auto element = static_cast<int64_t>(x.element_size());
  const int64_t longest = kCopiesStaging / (size_ - 1) / element / kShareUnit * kShareUnit;
  meet();
  for (const Share& piece : pieces_of(share_of(x.numel(), size_, rank_, unit_), longest)) {
    gpu::AddPartsArgs sum{.x = at(lent, rank_, x, piece.begin),
                          .parts = {},
                          .ranks = static_cast<int32_t>(size_),
                          .fp32 = x.scalar_type() == at::kFloat,
                          .count = piece.count};
    sum.parts[rank_] = sum.x;
    std::vector<void*> to;
    std::vector<const void*> from;
    for (int64_t i = 1; i < size_; ++i) {  // from each rank another one first
      const int64_t r = (rank_ + i) % size_;
      to.push_back(staging_.as<std::byte>() + (i - 1) * longest * element);
      from.push_back(at(lent, r, x, piece.begin));
      sum.parts[r] = to.back();
    }
    const std::vector<size_t> bytes(to.size(), static_cast<size_t>(piece.count * element));
    check_cuda(api_.copy_beside(to.data(), from.data(), bytes.data(), bytes.size(), stream_));
    check_cuda(api_.add_parts(&sum, stream_));
  }
  meet();
}

void PeerCopies::all_gather(const at::Tensor& x) {
  const Lent& lent = *find(x);
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<size_t> bytes;
  for (int64_t i = 1; i < size_; ++i) {
    const int64_t r = (rank_ + i) % size_;
    const Share share = share_of(x.numel(), size_, r, unit_);
    if (share.count == 0) continue;
    to.push_back(at(lent, rank_, x, share.begin));
    from.push_back(at(lent, r, x, share.begin));
    bytes.push_back(static_cast<size_t>(share.count) * x.element_size());
  }
  meet();
  if (!bytes.empty()) check_cuda(api_.copy_beside(to.data(), from.data(), bytes.data(), bytes.size(), stream_));
  meet();
}

void PeerCopies::release() const {
  for (int64_t r = 0; r < size_; ++r) {
    if (r != rank_ && flags_ != nullptr)
      std::atomic_ref(*flags_->of(r, rank_)).store(meetings_, std::memory_order_release);
  }
}

void PeerCopies::abandon() {
  abandoned_ = true;
  release();
}

}  // namespace tritonforge::parallel
