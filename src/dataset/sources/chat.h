#pragma once
// Conversations of anybody's: JSON lines or Parquet with `messages`.
#include "dataset/sources/records.h"
#include "dataset/sources/source.h"

namespace tritonforge::dataset {

struct ChatOptions {
  std::string path, messages = "messages", role = "role", content = "content", uuid = "uuid", licence = "licence";
  template <typename V>
  void describe(V& v) {
    v("path", path, required(), "a .jsonl or .parquet file, or a folder of them");
    v("messages", messages, "column (field) of the list of messages");
    v("role", role, "a message's field of who says it: system, user, assistant or tool");
    v("content", content, "a message's field of what is said");
    v("uuid", uuid, "column of the row's id; a checksum of the conversation where there is none");
    v("licence", licence, "column of the licence");
  }
};

// The row of one record. A message's `weight` (0 or 1, as OpenAI's) says whether an answer is learned; without one it
// is. Dropped with a reason: no messages, an unknown role, no answer, an answer first or two in a row, none learned,
// calls of tools or `tools` of the row's (or `functions`, their older form), an empty answer that is to be learned.
// Messages behind the last answer are left out ("trailing_messages" in the repairs).
Row chat_row(const ChatOptions& options, JsonLine record);

std::unique_ptr<Source> make_chat(const ChatOptions& options);

}  // namespace tritonforge::dataset
