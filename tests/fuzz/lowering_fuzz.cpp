// libs: tf_evaluate
// What the compilers' processes say, as bytes: machine code, or an error, neither longer than is kept.
#include "unit/evaluate/written_conversation.h"

namespace {

using namespace tritonforge;
using namespace tritonforge::evaluate;

bool sound(const Lowered& lowered) {
  if (lowered.error.size() > 4100 || lowered.shape.dump().size() > (64 << 10)) return false;
  return lowered.ok || !lowered.binary;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ReferenceData reference = written_reference();
  WrittenChildren children("", reference, text.empty() ? "=" : text);
  LoweringPool pool(children);
  for (const bool with_binary : {true, false, true}) {
    const Lowered lowered = pool.lower(language_of(Backend::kTriton), "text", "sm_90", Json::object(),
                                       Deadline::after(60), with_binary);
    if (!sound(lowered) || (lowered.ok && with_binary && !lowered.binary)) return 1;
  }
  std::vector<SentKernel> kernels{{"k", "sm_90", "another text", Json::object(), ""}};
  std::vector<Lowered> binaries;
  for (const Compiled& one :
       lower(pool, language_of(Backend::kCuda), kernels, Deadline::after(60), "sm_90", &binaries)) {
    if (one.error.size() > 5000) return 1;
  }
  return binaries.size() == 1 && sound(binaries[0]) ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  const std::string good = R"(16 {"ok":true,"entry":"k","shared":0,"warps":4,"ctas":1,"cooperative":false,)"
                           R"("dependent":false,"scratch":0,"resources":"9 registers","parameters":[["global",8]]})";
  return {good + "\n=\n" + good + "\n",
          R"(0 {"ok":false,"error":"OutOfResources: shared memory"})"
          "\n",
          "=\n=\n=\n" + good + "\n"};
}
