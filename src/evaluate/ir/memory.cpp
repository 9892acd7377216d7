#include "evaluate/ir/memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/error.h"

namespace tritonforge::evaluate::ir {

constexpr uint32_t kMarks = std::numeric_limits<uint32_t>::max();

std::string_view name_of(Finding::Kind kind) { return kind == Finding::Kind::kRace ? "race" : "uninitialised_read"; }

int Memory::add(std::string name, std::byte* data, int64_t bytes, int granule, bool initialised) {
  TF_CHECK(bytes >= 0 && bytes < int64_t{1} << (kBits - 1), "buffer {} of {} bytes", name, bytes);
  TF_CHECK(buffers_.size() < (size_t{1} << 20), "more than 2^20 buffers");
  Buffer buffer{.name = std::move(name), .data = data, .bytes = bytes, .granule = std::max(1, granule)};
  if (!initialised) buffer.written.assign(static_cast<size_t>((bytes + buffer.granule - 1) / buffer.granule), 0);
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

void Memory::begin_launch(int64_t programs, bool orders, Schedule schedule) {
  TF_CHECK(programs > 0 && programs < (int64_t{1} << 30), "a launch of {} programs", programs);
  first_ += static_cast<uint32_t>(programs_.size());
  programs_.assign(1, 0);
  if (first_ > kMarks / 2) {  // numbers start again: forget all marks
    for (auto& buffer : buffers_) buffer.writer.clear(), buffer.reader.clear(), buffer.atomic.clear();
    first_ = 1;
  }
  orders_ = orders;
  at_once_ = schedule == Schedule::kAtOnce;
  for (auto& buffer : buffers_) buffer.before.assign(buffer.data, buffer.data + (at_once_ ? buffer.bytes : 0));
  releases_.clear();
  flagged_ = unwritten_flagged_ = false;
}

void Memory::begin(Turn& turn, int64_t program) {
  turn = {.program = static_cast<uint32_t>(program)};
  turn_ = &turn;
  begin_stretch();
}

void Memory::begin_stretch() {
  if (programs_.size() > kMarks / 4) throw std::out_of_range("more atomics than can be followed");
  turn_->stretch = first_ + static_cast<uint32_t>(programs_.size());
  turn_->released = false;
  programs_.push_back(turn_->program);
}

std::string Memory::element(const Buffer& buffer, int64_t byte) const {
  const int64_t index = byte >= 0 ? byte / buffer.granule : -((-byte + buffer.granule - 1) / buffer.granule);
  return fmt::format("element {} of '{}', which has {} elements", index, buffer.name, buffer.bytes / buffer.granule);
}

bool Memory::ordered(uint32_t other) const {
  if (!orders_ || other == first_) return false;
  const uint32_t program = program_of(other);
  if (program == turn_->program) return true;
  return std::ranges::any_of(turn_->acquired, [&](const auto& acquired) {
    const Releases& there = releases_.at(acquired.first);
    const auto theirs = there.of.find(program);
    if (theirs == there.of.end()) return false;
    const auto first = std::ranges::lower_bound(theirs->second, other, {}, &Releases::Release::stretch);
    return first != theirs->second.end() && first->place < acquired.second;
  });
}

namespace {

void raise(size_t& value, size_t to) { value = std::max(value, to); }

}  // namespace

void Memory::acquire(uint64_t address) {
  const auto found = releases_.find(address);
  if (found == releases_.end()) return;
  raise(turn_->acquired[address], found->second.count);
  for (const auto& [other, count] : found->second.acquired) raise(turn_->acquired[other], count);
}

void Memory::release(uint64_t address) {
  Releases& here = releases_[address];
  here.of[turn_->program].push_back({turn_->stretch, here.count++});
  for (const auto& [other, count] : turn_->acquired) raise(here.acquired[other], count);
  turn_->released = true;
}

void Memory::race(Buffer& buffer, int64_t cell, uint32_t other, const char* mine, const char* theirs) {
  if (flagged_ || ordered(other)) return;
  // Once a program has waited for others through an atomic, "many readers" can no longer be told apart.
  if (other == first_ && !turn_->acquired.empty()) return;
  flagged_ = true;
  if (findings.size() >= kMaxFindings) return;
  const std::string who = other == first_ ? "several programs" : fmt::format("program {}", program_of(other));
  findings.push_back(
      {Finding::Kind::kRace, fmt::format("{}: program {} {} {}, which {} {} without an order between them",
                                         describe ? describe(describe_data) : "", turn_->program, mine,
                                         element(buffer, cell * buffer.granule), who, theirs)});
}

void Memory::track_load(Buffer& buffer, int64_t from, int64_t to) {
  uint32_t* writer = buffer.writer.data();
  uint32_t* reader = buffer.reader.data();
  const uint32_t self = turn_->stretch, first = first_;
  uint32_t bad = 0;
  for (int64_t c = from; c < to; ++c)
    bad |= static_cast<uint32_t>(writer[c] >= first) & static_cast<uint32_t>(writer[c] != self);
  if (orders_) {
    for (int64_t c = from; c < to; ++c) {
      if (reader[c] != self) reader[c] = reader[c] < first || ordered(reader[c]) ? self : first;
    }
  } else {
    for (int64_t c = from; c < to; ++c) reader[c] = (reader[c] >= first) & (reader[c] != self) ? first : self;
  }
  if (bad && !flagged_) {
    for (int64_t c = from; c < to; ++c) {
      if (writer[c] >= first && writer[c] != self) race(buffer, c, writer[c], "reads", "writes");
    }
  }
  if (!buffer.atomic.empty() && !flagged_) {
    for (int64_t c = from; c < to; ++c) {
      if (buffer.atomic[c] >= first && buffer.atomic[c] != self)
        race(buffer, c, buffer.atomic[c], "reads", "changes by an atomic");
    }
  }
}

void Memory::track_store(Buffer& buffer, int64_t from, int64_t to, int64_t byte, int64_t bytes,
                         const std::byte* fresh) {
  uint32_t* writer = buffer.writer.data();
  uint32_t* reader = buffer.reader.data();
  const uint32_t self = turn_->stretch, first = first_;
  uint32_t bad = 0;
  for (int64_t c = from; c < to; ++c) {
    bad |= (static_cast<uint32_t>(writer[c] >= first) & static_cast<uint32_t>(writer[c] != self)) |
           (static_cast<uint32_t>(reader[c] >= first) & static_cast<uint32_t>(reader[c] != self));
  }
  const bool atomics = !buffer.atomic.empty();
  if ((bad || atomics) && !flagged_) {
    for (int64_t c = from; c < to && !flagged_; ++c) {
      const int64_t begin = std::max(byte, c * buffer.granule), end = std::min(byte + bytes, (c + 1) * buffer.granule);
      // The same bytes once more (several programs that store one statistic) disturb nobody.
      if (std::memcmp(buffer.data + begin, fresh + (begin - byte), static_cast<size_t>(end - begin)) == 0) continue;
      if (writer[c] >= first && writer[c] != self) race(buffer, c, writer[c], "writes", "writes otherwise");
      else if (reader[c] >= first && reader[c] != self)
        race(buffer, c, reader[c], "writes", reader[c] == first_ ? "read" : "reads");
      else if (atomics && buffer.atomic[c] >= first && buffer.atomic[c] != self)
        race(buffer, c, buffer.atomic[c], "writes", "changes by an atomic");
    }
  }
  std::fill(writer + from, writer + to, self);
}

void Memory::track_atomic(Buffer& buffer, int64_t from, int64_t to) {
  if (buffer.atomic.empty()) buffer.atomic.assign(buffer.writer.size(), 0);
  const uint32_t self = turn_->stretch;
  for (int64_t c = from; c < to; ++c) {
    if (buffer.writer[c] >= first_ && buffer.writer[c] != self)
      race(buffer, c, buffer.writer[c], "changes by an atomic", "writes");
    else if (buffer.reader[c] >= first_ && buffer.reader[c] != self)
      race(buffer, c, buffer.reader[c], "changes by an atomic", buffer.reader[c] == first_ ? "read" : "reads");
    buffer.atomic[c] = self;
  }
}

// What the program finds there: of what others stored without an order after which it comes, what was there before.
std::byte* Memory::loaded(Buffer& buffer, int64_t offset, int64_t bytes, int64_t from, int64_t to) {
  if (!at_once_) return buffer.data + offset;
  loaded_.assign(buffer.data + offset, buffer.data + offset + bytes);
  for (int64_t c = from; c < to; ++c) {
    const uint32_t writer = buffer.writer[static_cast<size_t>(c)];
    if (writer < first_ || writer == turn_->stretch || ordered(writer)) continue;
    const int64_t begin = std::max(offset, c * buffer.granule),
                  end = std::min(offset + bytes, (c + 1) * buffer.granule);
    std::copy(buffer.before.begin() + begin, buffer.before.begin() + end, loaded_.begin() + (begin - offset));
  }
  return loaded_.data();
}

std::byte* Memory::access(Access kind, uint64_t address, int64_t count, int size, const std::byte* fresh) {
  const char* action = kind == Access::kLoad ? "load" : kind == Access::kStore ? "store" : "atomic";
  // An address a little below a buffer belongs to it: "element -3" helps, "no buffer" does not.
  uint64_t number = address >> kBits;
  int64_t offset = static_cast<int64_t>(address & ((uint64_t{1} << kBits) - 1));
  if (offset >= int64_t{1} << (kBits - 1)) {
    offset -= int64_t{1} << kBits;
    ++number;
  }
  if (number == 0 || number > buffers_.size()) {
    throw std::out_of_range(fmt::format("{} at address {:#x}, which is in no tensor of this launch", action, address));
  }
  Buffer& buffer = buffers_[number - 1];
  const int64_t bytes = count * size;
  if (offset < 0 || offset + bytes > buffer.bytes) {
    const int64_t bad = offset < 0 ? offset : std::max(offset, (buffer.bytes - offset) / size * size + offset);
    throw std::out_of_range(fmt::format("out-of-bounds {}: {}; is a mask missing?", action, element(buffer, bad)));
  }
  if (bytes == 0) return buffer.data + offset;
  if (turn_->released) begin_stretch();
  if (kind == Access::kStore) ++changes;
  const int64_t from = offset / buffer.granule, to = (offset + bytes - 1) / buffer.granule + 1;
  if (!buffer.written.empty()) {
    if (kind != Access::kStore && !unwritten_flagged_) {
      const auto begin = buffer.written.begin();
      const auto gap = std::find(begin + from, begin + to, 0);
      if (gap != begin + to) {
        unwritten_flagged_ = true;
        if (findings.size() < kMaxFindings) {
          findings.push_back(
              {Finding::Kind::kUninitialised, fmt::format("{}: program {} reads {}, before anything was written there",
                                                          describe ? describe(describe_data) : "", turn_->program,
                                                          element(buffer, (gap - begin) * buffer.granule))});
        }
      }
    }
    if (kind != Access::kLoad) std::fill(buffer.written.begin() + from, buffer.written.begin() + to, 1);
  }
  if (buffer.writer.empty()) {
    const size_t cells = static_cast<size_t>((buffer.bytes + buffer.granule - 1) / buffer.granule);
    buffer.writer.assign(cells, 0);
    buffer.reader.assign(cells, 0);
  }
  if (kind == Access::kLoad) track_load(buffer, from, to);
  else if (kind == Access::kStore) track_store(buffer, from, to, offset, bytes, fresh);
  else track_atomic(buffer, from, to);
  return kind == Access::kLoad ? loaded(buffer, offset, bytes, from, to) : buffer.data + offset;
}

}  // namespace tritonforge::evaluate::ir
