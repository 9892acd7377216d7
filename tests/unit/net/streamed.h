#pragma once
// A reply's pieces as they come, by the client that the router streams with.
#include <future>

#include "net/async_client.h"

namespace tritonforge::net {

// on_piece: false hangs up. The Response carries status and headers.
inline Result<Response> streamed(AsyncRequest request, const std::function<bool(std::string_view)>& on_piece,
                                 const std::optional<TlsFiles>& tls = std::nullopt) {
  Response response;
  std::promise<std::optional<Error>> over;
  AsyncClient client(tls);
  client.send(std::move(request),
              {.on_head =
                   [&](int status, Headers headers) {
                     response.status = status;
                     response.headers = std::move(headers);
                   },
               .on_body = on_piece,
               .on_done = [&](std::optional<Error> error, bool) { over.set_value(std::move(error)); }});
  if (const std::optional<Error> error = over.get_future().get()) return *error;
  return response;
}

}  // namespace tritonforge::net
