#include "net/http.h"

namespace tritonforge::net {

Response Response::json(const Json& value, int status) {
  return {status, value.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json", {}};
}

Response Response::error(const Error& error) {
  Response response = json({{"error", {{"message", error.what()}, {"type", name_of(error.kind())}}}},
                           http_status(error.kind()));
  if (response.status == 503 || response.status == 429) response.headers["retry-after"] = "1";
  return response;
}

}  // namespace tritonforge::net
