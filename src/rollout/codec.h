#pragma once
// The codec of a buffer or generator that was started without a tokenizer.
#include <memory>

#include "contract/rollout.h"
#include "tokenizer/chat_codec.h"

namespace tritonforge::rollout {

using tokenizer::ChatCodec;

// Of one that asks chat servers only: whoever wants tokens of it gets kUsage.
std::unique_ptr<ChatCodec> no_chat_codec();
// Before a group is taken: kUsage where it is one of tokens and there is no tokenizer. Its samples would all fail.
void require_codec(const ChatCodec& codec, const GroupSpec& group);

}  // namespace tritonforge::rollout
