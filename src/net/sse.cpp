#include "net/http.h"

namespace tritonforge::net {

void SseParser::feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_event) {
  for (const char c : bytes) {
    if (skip_line_feed_ && c == '\n') {  // the second half of a CR LF
      skip_line_feed_ = false;
      continue;
    }
    skip_line_feed_ = c == '\r';
    if (c != '\r' && c != '\n') {
      line_ += c;
      continue;
    }
    if (line_.empty()) {
      if (has_data_) on_event(data_);
      data_.clear();
      has_data_ = false;
      continue;
    }
    if (line_.rfind("data", 0) == 0 && (line_.size() == 4 || line_[4] == ':')) {
      std::string_view value = std::string_view(line_).substr(std::min<size_t>(5, line_.size()));
      if (!value.empty() && value[0] == ' ') value.remove_prefix(1);
      if (has_data_) data_ += '\n';
      data_ += value;
      has_data_ = true;
    }
    line_.clear();
  }
}

std::string sse_event(std::string_view data) {
  std::string out = "data: ";
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i] == '\r') {
      if (i + 1 < data.size() && data[i + 1] == '\n') continue;
      out += "\ndata: ";
    } else if (data[i] == '\n') {
      out += "\ndata: ";
    } else {
      out += data[i];
    }
  }
  return out += "\n\n";
}

}  // namespace tritonforge::net
