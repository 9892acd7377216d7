#pragma once
// The messages that a group's prompt is given by.
#include <string>

#include "base/json.h"
#include "tokenizer/chat_template.h"

namespace tritonforge {

// Throws kUsage for what is no message, kUnsupported for one that calls tools: rollouts have none, and a chat server
// would be sent the message without its call.
tokenizer::Message prompt_message(const Json& json, const std::string& where);

}  // namespace tritonforge
