// libs: tf_weights
// What engines and the trainer's ranks say to each other before weights are sent: what is taken says itself again.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "contract/weights.h"
#include "weights/desk.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  bool same = true;
  const auto again = [&](const auto& parse, const auto& write) {
    try {
      const Json once = write(parse(parse_json(text, "fuzz")));
      same &= write(parse(once)) == once;
    } catch (const Error&) {  // refused: what is wanted of most inputs
    }
  };
  again(weights::member_from_json, [](const weights::Member& member) { return weights::to_json(member); });
  again(grouped_weights_from_json, [](const GroupedWeights& offer) { return to_json(offer); });
  again([](const Json& reply) { return weights::round_from_json(reply, "fuzz"); },
        [](const std::optional<weights::Round>& round) {
          return round ? weights::to_json(*round) : Json{{"round", nullptr}};
        });
  return same ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  const weights::Round round{.name = "3-1", .place = 1, .size = 3, .from = {0, 64}, .nccl = true};
  return {
      weights::to_json(weights::Member{.source = 1, .version = 3}).dump(),
      weights::to_json(weights::Member{.id = "a", .version = 3, .nccl = true, .have = {0, 7}}).dump(),
      weights::to_json(round).dump(),
      to_json(GroupedWeights{.host = "10.0.0.1", .port = 7, .tp = 2, .pp = 2, .dtype = "bfloat16", .plan = "0"}).dump(),
      R"({"round": null})",
  };
}
