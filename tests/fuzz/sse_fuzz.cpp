// libs: tf_net
// The same bytes must give the same events however they are cut.
#include <cstdint>
#include <string>
#include <vector>

#include "net/http.h"

using tritonforge::net::SseParser;

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> whole, cut;
  SseParser one, other;
  one.feed(text, [&](std::string_view event) { whole.emplace_back(event); });
  for (const char c : text) other.feed({&c, 1}, [&](std::string_view event) { cut.emplace_back(event); });
  return whole == cut ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  return {"data: x\n\n", "data: a\r\ndata: b\r\n\r\n: c\nid: 1\ndata:[DONE]\n\n",
          tritonforge::net::sse_event("1\r\n2\r3")};
}
