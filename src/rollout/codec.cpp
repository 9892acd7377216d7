#include "rollout/codec.h"

#include "base/error.h"

namespace tritonforge::rollout {
namespace {

using tokenizer::Message;

class NoCodec : public ChatCodec {
 public:
  std::vector<int64_t> opening(const std::vector<Message>&, bool) const override { refuse(); }
  std::vector<int64_t> continuation(const std::vector<int64_t>&, const std::vector<Message>&, bool) const override {
    refuse();
  }
  std::vector<int64_t> answer(const Message&, bool) const override { refuse(); }
  std::string text(const std::vector<int64_t>&) const override { refuse(); }
  std::vector<int64_t> stop_tokens() const override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    fail(ErrorKind::kUsage, "there is no tokenizer here (--tokenizer): only chat servers can be asked (chat_model)");
  }
};

}  // namespace

std::unique_ptr<ChatCodec> no_chat_codec() { return std::make_unique<NoCodec>(); }

void require_codec(const ChatCodec& codec, const GroupSpec& group) {
  if (group.options.chat_model.empty()) codec.stop_tokens();
}

}  // namespace tritonforge::rollout
