#include "evaluate/ir/memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/error.h"

namespace tritonforge::evaluate::ir {

std::string_view name_of(Finding::Kind kind) { return kind == Finding::Kind::kRace ? "race" : "uninitialised_read"; }

int Memory::add(std::string name, std::byte* data, int64_t bytes, int granule, bool initialised) {
  TF_CHECK(bytes >= 0 && bytes < int64_t{1} << (kBits - 1), "buffer {} of {} bytes", name, bytes);
  TF_CHECK(buffers_.size() < (size_t{1} << 20), "more than 2^20 buffers");
  Buffer buffer{.name = std::move(name), .data = data, .bytes = bytes, .granule = std::max(1, granule)};
  if (!initialised) buffer.written.assign(static_cast<size_t>((bytes + buffer.granule - 1) / buffer.granule), 0);
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

void Memory::begin_launch(int64_t programs) {
  TF_CHECK(programs > 0 && programs < (int64_t{1} << 30), "a launch of {} programs", programs);
  if (many_ >
      std::numeric_limits<uint32_t>::max() - (uint32_t{1} << 30) - 2) {  // numbers start again: forget all marks
    for (auto& buffer : buffers_) buffer.writer.clear(), buffer.reader.clear(), buffer.atomic.clear();
    many_ = 0;
  }
  first_ = many_ + 1;
  many_ = first_ + static_cast<uint32_t>(programs);
  visitors_.clear();
  flagged_ = unwritten_flagged_ = false;
}

void Memory::begin_program(int64_t program) {
  self_ = first_ + static_cast<uint32_t>(program);
  before_me_.clear();
}

std::string Memory::element(const Buffer& buffer, int64_t byte) const {
  const int64_t index = byte >= 0 ? byte / buffer.granule : -((-byte + buffer.granule - 1) / buffer.granule);
  return fmt::format("element {} of '{}', which has {} elements", index, buffer.name, buffer.bytes / buffer.granule);
}

bool Memory::ordered(uint32_t other) const { return other != many_ && before_me_.contains(other); }

void Memory::synchronise(uint64_t address) {
  auto& visitors = visitors_[address];
  before_me_.insert(visitors.begin(), visitors.end());
  visitors.insert(before_me_.begin(), before_me_.end());
  visitors.insert(self_);
}

void Memory::race(Buffer& buffer, int64_t cell, uint32_t other, const char* mine, const char* theirs) {
  if (flagged_ || ordered(other)) return;
  // Once a program has waited for others through an atomic, "many readers" can no longer be told apart.
  if (other == many_ && !before_me_.empty()) return;
  flagged_ = true;
  if (findings.size() >= kMaxFindings) return;
  const std::string who = other == many_ ? "several programs" : fmt::format("program {}", other - first_);
  findings.push_back(
      {Finding::Kind::kRace, fmt::format("{}: program {} {} {}, which {} {} without an order between them",
                                         describe ? describe(describe_data) : "", self_ - first_, mine,
                                         element(buffer, cell * buffer.granule), who, theirs)});
}

void Memory::track_load(Buffer& buffer, int64_t from, int64_t to) {
  uint32_t* writer = buffer.writer.data();
  uint32_t* reader = buffer.reader.data();
  const uint32_t self = self_, first = first_, many = many_;
  uint32_t bad = 0;
  for (int64_t c = from; c < to; ++c)
    bad |= static_cast<uint32_t>(writer[c] >= first) & static_cast<uint32_t>(writer[c] != self);
  for (int64_t c = from; c < to; ++c) reader[c] = (reader[c] >= first) & (reader[c] != self) ? many : self;
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
  const uint32_t self = self_, first = first_;
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
        race(buffer, c, reader[c], "writes", reader[c] == many_ ? "read" : "reads");
      else if (atomics && buffer.atomic[c] >= first && buffer.atomic[c] != self)
        race(buffer, c, buffer.atomic[c], "writes", "changes by an atomic");
    }
  }
  std::fill(writer + from, writer + to, self);
}

void Memory::track_atomic(Buffer& buffer, int64_t from, int64_t to) {
  if (buffer.atomic.empty()) buffer.atomic.assign(buffer.writer.size(), 0);
  for (int64_t c = from; c < to; ++c) {
    if (buffer.writer[c] >= first_ && buffer.writer[c] != self_)
      race(buffer, c, buffer.writer[c], "changes by an atomic", "writes");
    else if (buffer.reader[c] >= first_ && buffer.reader[c] != self_)
      race(buffer, c, buffer.reader[c], "changes by an atomic", buffer.reader[c] == many_ ? "read" : "reads");
    buffer.atomic[c] = self_;
  }
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
                                                          describe ? describe(describe_data) : "", self_ - first_,
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
  return buffer.data + offset;
}

}  // namespace tritonforge::evaluate::ir
