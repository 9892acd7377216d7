#include "net/http.h"

#include <cmath>

#include "net/instance.h"

namespace tritonforge::net {

Response Response::json(const Json& value, int status) {
  return {status, value.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json", {}};
}

Response Response::error(const std::exception& error, const Json& more) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const ErrorKind kind = known ? known->kind() : ErrorKind::kInternal;
  Json body = more;
  body["error"] = {{"message", error.what()}, {"type", name_of(kind)}};
  Response response = json(body, http_status(kind));
  if (response.status == 503 || response.status == 429) {
    const double wait_s = known ? known->retry_after_s() : 0;
    response.headers.emplace("retry-after", fmt::format("{:.0f}", std::max(1.0, std::ceil(wait_s))));
  }
  return response;
}

Response health_reply(Colour colour, std::string_view role, std::string_view detail, const Json& report) {
  const char* status = colour == Colour::kGreen ? "green" : colour == Colour::kYellow ? "yellow" : "red";
  Json body = {{"status", status}, {"role", role}, {"detail", detail}};
  if (!report.empty()) body["report"] = report;
  if (const char* instance = std::getenv(kInstanceVariable)) body["instance"] = instance;
  return Response::json(body, colour == Colour::kRed ? 503 : 200);
}

}  // namespace tritonforge::net
