#pragma once
// The codec of a buffer that was started without a tokenizer.
#include <memory>

#include "tokenizer/chat_codec.h"

namespace tritonforge::rollout {

using tokenizer::ChatCodec;

// Of a buffer that asks chat servers only: whoever wants tokens of it gets kUsage.
std::unique_ptr<ChatCodec> no_chat_codec();

}  // namespace tritonforge::rollout
