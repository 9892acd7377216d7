#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tritonforge::net {

// The bytes of RFC 4648's base64 with its padding; nullopt where `text` is none, or longer than 2 GiB.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tritonforge::net
