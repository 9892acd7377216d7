#pragma once
// Where c10d's groups exchange their addresses: names of a meeting (rendezvous.h), asked for with its key.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

#include "parallel/rendezvous.h"

namespace tritonforge::parallel {

// The meeting outlives it.
c10::intrusive_ptr<c10d::Store> meeting_store(Meeting& meeting, std::string prefix, double timeout_s);

}  // namespace tritonforge::parallel
