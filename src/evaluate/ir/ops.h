#pragma once
// The instructions' bodies, chosen while a kernel is compiled. nullptr: there is none for this operation and type.
#include <string_view>

#include "evaluate/ir/program.h"

namespace tritonforge::evaluate::ir {

struct Chosen {
  Instruction::Run run = nullptr;
  float flops = 0;           // an element
  Kind result = Kind::kI32;  // of an element
};

// One result element from the same element of each operand. `word` is the predicate of a comparison or the symbol of
// tt.extern_elementwise; `kind` the operands'.
Chosen elementwise(std::string_view name, std::string_view word, Kind kind, size_t operands);
Chosen cast(std::string_view name, std::string_view rounding, Kind from, Kind to);

namespace run {
using F = void(Machine&, const Instruction&);
F constant, range, spread, program_id, num_programs, address, broadcast, transpose, join, split, interleave, dot,
    reduce, scan, gather, histogram, load, store, atomic_rmw, atomic_cas, make_tuple, advance, load_block, store_block,
    reduce_block, check, map_elements, loop_for, branch_if, loop_while, graph;
}  // namespace run

}  // namespace tritonforge::evaluate::ir
