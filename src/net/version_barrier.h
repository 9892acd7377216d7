#pragma once
// The router's barrier between versions of weights, as engines and generators meet it.

namespace tritonforge::net {

// Of a request: the least version that it is to be sampled from. Of a 503: the engine's weights are older, and nothing
// has failed.
inline constexpr char kMinWeightVersion[] = "x-min-weight-version";

}  // namespace tritonforge::net
