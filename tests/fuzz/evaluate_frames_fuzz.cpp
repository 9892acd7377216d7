// libs: tf_evaluate
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "evaluate/channel.h"
#include "evaluate/compare.h"
#include "evaluate/server.h"
#include "evaluate/trial.h"

std::vector<std::string> fuzz_seeds() {
  return {std::string("\x44\0\0\0\x10\0\0\0\0\0\0\0", 12) +
              R"({"outputs":{"tensor":0},"tensors":[],"inputs":0,"aliases":[0],"a":[]})" + std::string(16, '\1'),
          R"({"outputs":{"list":[{"tensor":0}]},"tensors":[{"dtype":"float32","shape":[2,2],"order":[0,1],)"
          R"("bytes":16}],"inputs":0,"aliases":[-1]})",
          R"([{"dtype":"float32","shape":[2,2],"order":[0,1],"bytes":16},{"dtype":"bfloat16","shape":[3,8],)"
          R"("order":[1,0],"bytes":48}])",
          R"([{"dtype":"int64","shape":[],"order":[],"bytes":8},{"dtype":"bool","shape":[0,5],"order":[0,1],)"
          R"("bytes":0},{"dtype":"float64","shape":[7],"order":[0],"bytes":56}])",
          R"({"problem":{"id":"p","source":"x"},"candidate":"y","mode":null,"seed":42,"num_correct_trials":5,)"
          R"("measure_performance":true,"backend":"triton","timeout_s":120})",
          R"({"original_model_src":"x","custom_model_src":"y","seed_num":42,"num_perf_trials":100,)"
          R"("verbose":false,"backend":"cuda"})"};
}

namespace {

// A conversation as a child would send it, frame after frame, each judged as the answer to a trial.
void hear(const std::string& bytes) {
  using namespace tritonforge;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  const int size = 1 << 20;
  ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  const bool sent = ::send(ends[1], bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(bytes.size());
  ::close(ends[1]);
  evaluate::Channel channel(ends[0], -1, {.frame_bytes = 1 << 20});
  evaluate::ReferenceTrial expected;
  evaluate::Frame frame;
  std::string detail;
  while (sent && channel.receive(frame, Deadline::after(60), detail) == evaluate::Silence::kNone) {
    Verdict verdict;
    bool constant = true;
    try {
      const auto result = evaluate::call_result(frame.header.at("outputs"), frame.header, frame.payload);
      evaluate::judge_call(result, nullptr, expected, 0, {}, verdict, constant);
      evaluate::same_outputs(result, nullptr, expected, {});
    } catch (const Error&) {
    } catch (const Json::exception&) {}
    evaluate::bound(verdict);
  }
}

}  // namespace

// What comes from untrusted children (frames, tensor descriptions) and from clients (request bodies): refused or read,
// never more.
int fuzz_one(const uint8_t* data, size_t size) {
  using namespace tritonforge;
  const std::string text(reinterpret_cast<const char*>(data), size);
  hear(text);
  const Json json = parse_json_or_discard(text);
  if (json.is_discarded()) return 0;
  std::string framed(12, '\0');  // the same text as a well-formed frame with 64 bytes behind it
  const auto head = static_cast<uint32_t>(size);
  framed[4] = 64;
  std::memcpy(framed.data(), &head, 4);
  hear(framed + text + std::string(64, '\0'));
  const std::vector<std::byte> payload(64);
  try {
    const auto tensors = evaluate::parse_tensors(json, payload);
    for (const auto& tensor : tensors) evaluate::compare(tensor, tensor, {}, "x");
  } catch (const Error&) {}
  for (const bool legacy : {false, true}) {
    try {
      evaluate::evaluation_request_from_json(json, legacy);
    } catch (const Error&) {}
  }
  return 0;
}
