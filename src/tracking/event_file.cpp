#include "tracking/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"

namespace tritonforge::tracking {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}

void put_fixed(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Protocol buffers: a field's number and wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes).
void put_double(std::string& out, int field, double value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 1);
  put_fixed(out, std::bit_cast<uint64_t>(value), 8);
}
void put_float(std::string& out, int field, float value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 5);
  put_fixed(out, std::bit_cast<uint32_t>(value), 4);
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

std::string record(std::string_view event) {
  std::string out;
  put_fixed(out, event.size(), 8);
  put_fixed(out, masked(crc32c(out)), 4);
  out += event;
  put_fixed(out, masked(crc32c(event)), 4);
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

std::string event_record(const Point& point) {
  std::string summary;
  for (const auto& [key, value] : point.values) {
    std::string entry;
    put_bytes(entry, 1, key);
    put_float(entry, 2, static_cast<float>(value));
    put_bytes(summary, 1, entry);
  }
  std::string event;
  put_double(event, 1, point.time);
  put_varint(event, 2 << 3);
  put_varint(event, static_cast<uint64_t>(point.step));
  put_bytes(event, 5, summary);
  return record(event);
}

EventFile::EventFile(const fs::path& folder) {
  fs::create_directories(folder);
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  const double now = unix_seconds();
  for (int number = 0; path_.empty() || fs::exists(path_); ++number)
    path_ = folder / fmt::format("events.out.tfevents.{:.0f}.{}.{}.{}", now, host, ::getpid(), number);
  file_.open(path_, std::ios::binary);
  std::string event;
  put_double(event, 1, now);
  put_bytes(event, 3, "brain.Event:2");
  file_ << record(event);
  flush();
}

void EventFile::put(const Point& point) { file_ << event_record(point); }

void EventFile::flush() {
  if (!file_.flush()) fail(ErrorKind::kUnavailable, "cannot write {}: {}", path_.string(), std::strerror(errno));
}

}  // namespace tritonforge::tracking
