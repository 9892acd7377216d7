#pragma once
// TensorBoard's event files, written without TensorBoard. Framing: TFRecord (tensorflow/core/lib/io/record_writer.h):
// length, its masked CRC32C, the bytes, their masked CRC32C. Content: Event of tensorflow/core/util/event.proto.
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "base/filesystem.h"
#include "tracking/figures.h"

namespace tritonforge::tracking {

uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial, as in RFC 3720
std::string event_record(const Point& point);

// events.out.tfevents.SECONDS.HOST.PID.N in a folder: a file of its own for each writer, which TensorBoard reads as
// one.
class EventFile {
 public:
  explicit EventFile(const fs::path& folder);  // throws kUnavailable
  void put(const Point& point);
  void flush();  // to the file system; throws kUnavailable where it does not take it

 private:
  fs::path path_;
  std::ofstream file_;
};

}  // namespace tritonforge::tracking
