#pragma once
// A conversation as training tokens: loss on what the assistant says, its <|im_end|> included, and on nothing else.
// Every part is tokenised by itself, so the prompt's tokens are exactly those that the engine would be given before it
// samples, and no token straddles the mask's edge.
#include <cstdint>
#include <vector>

#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::tokenizer {

struct MaskedTokens {
  std::vector<int64_t> tokens;
  std::vector<uint8_t> loss_mask;  // 1 = trained; as long as tokens
};

// `train` has one flag per message (empty = train every assistant message): a wrong first attempt in a refinement
// conversation carries no loss. Decoded, the tokens are render_chat() without a generation prompt.
//
// Qwen3's template drops the reasoning of assistant messages before the last question. Training on such a message is
// refused (kUnsupported): what would be trained is not what the model said. Give the conversation once per question,
// cut after its answer, or set its flag to false. With options.enable_thinking = false the empty thought that the
// template puts before the last answer is prompt; with thinking on it is the model's own and is trained.
//
// Throws kUsage where `train` has another length or leaves no assistant message to train on.
MaskedTokens tokenize_conversation(const Tokenizer& tokenizer, ChatFormat format, const std::vector<Message>& messages,
                                   const std::vector<bool>& train = {}, ChatOptions options = {});

}  // namespace tritonforge::tokenizer
