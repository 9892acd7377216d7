#pragma once
// The ids under which a trajectory and its requests are found in every server's spans and logs: W3C Trace Context
// (https://www.w3.org/TR/trace-context), made from names, so that nobody has to write them down.
#include <string>

#include "base/checksum.h"

namespace tritonforge {

inline std::string trace_id_of(const std::string& trajectory_id) { return checksum(trajectory_id); }  // 32 hex digits
inline std::string span_id_of(const std::string& name) { return checksum(name).substr(0, 16); }
// The header's value for a request: `request_id` is the trajectory's, "-", and the turn.
inline std::string traceparent_of(const std::string& trajectory_id, const std::string& request_id) {
  return "00-" + trace_id_of(trajectory_id) + "-" + span_id_of(request_id) + "-01";
}

}  // namespace tritonforge
