#pragma once
// The arrays of a trajectory's tokens as the buffer stores them, beside the transcript in JSON. Numbers as text would
// be most of a trajectory's bytes and nearly all of the time that it takes to write and read one.
//
// Little-endian; a turn whose prompt goes on from the turn before names how many tokens they share:
//   u32 turns; a turn: u32 shared, u32 prompt, u32 response, u32 runs,
//   i32[prompt] tokens behind the first `shared` ones of (the prompt before, the response before),
//   i32[response], f32[response] log-probs, (i64 weight version, u32 tokens)[runs]
#include <string>
#include <string_view>

#include "contract/trajectory.h"

namespace tritonforge::rollout {

// Throws kInternal where a log-probability is not finite or the arrays of a turn differ in length, kUsage where a token
// id needs more than 31 bits.
std::string token_record(const Trajectory& trajectory);
// Fills the arrays of a transcript's turns. Throws kUsage where the bytes are not those of a trajectory of so many
// turns.
void add_tokens(Trajectory& transcript, std::string_view record);

}  // namespace tritonforge::rollout
