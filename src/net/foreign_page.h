#pragma once
// What a page in somebody's browser may not ask of a server without a key.
//
// Whoever opens a page of a foreign site lets it send requests to this machine's loopback, and without a key nothing
// else tells the page from its reader. Two things do, which a browser says and no page can change:
// - Host. A page may have its own name point here (DNS rebinding); the browser then shows it the replies, as those of
//   its own site. Its name is no name of loopback. The port is not compared: a tunnel has another one.
// - Origin, and of a GET, which has none, Sec-Fetch-Site. A page may send to 127.0.0.1 without reading the reply. What
//   changes nothing is let through: no reply allows a foreign page to read it.
// A server with a key needs neither: a page has none, a browser sends one only to the name under which its user signed
// in, and only with what reads (net/key.h), and who has one may call the server by any name that its machine has. Nor
// has a request without these headers anything to hide: it is of no browser's.
#include <optional>
#include <string>

#include "net/http.h"

namespace tritonforge::net {

// Why a server without a key, which listens on loopback alone, refuses the request, in a line; nullopt: it does not.
// `reads`: the request changes nothing (RouteTable::Match).
std::optional<std::string> foreign_page(const Request& request, bool reads);

}  // namespace tritonforge::net
