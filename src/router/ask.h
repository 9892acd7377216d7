#pragma once
// A request of this process's own through a router: one peer takes it, another where that one is lost.
#include "router/router.h"

namespace tritonforge::router {

// Waits for the reply, at most until request.deadline. 503 where no peer could take it, 504 past the deadline.
net::Response ask(Router& router, net::Request request);

}  // namespace tritonforge::router
