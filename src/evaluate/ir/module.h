#pragma once
// Triton IR (TTIR as Triton 3.6 prints it, before any pass) as a tree. The text comes from an untrusted process: it is
// bounded in bytes, operations, nesting and tensor size, and every error names line and operation.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/ir/type.h"

namespace tritonforge::evaluate::ir {

struct Limits {
  size_t bytes = size_t{8} << 20;
  int operations = 200'000;
  int depth = 48;                             // of nested regions
  int64_t block_elements = int64_t{1} << 20;  // Triton's own limit
  int rank = 24;
};

struct Attribute {
  enum class Form { kInteger, kWord, kList, kDense } form = Form::kWord;
  int64_t integer = 0;
  std::string word;  // a bare word or a string
  std::vector<int64_t> list;
};

struct Operation;
struct Block {
  std::vector<int> arguments;  // value ids
  std::vector<Operation> operations;
};
struct Region {
  std::vector<Block> blocks;
};
struct Successor {
  int block = 0;
  std::vector<int> operands;
};

struct Operation {
  std::string name;                    // "arith.addi"
  std::vector<int> operands, results;  // value ids of the function
  std::vector<int> groups;             // sizes of bracketed operand lists, in order
  std::vector<std::string> words;      // bare words before the types: "ogt", "acq_rel"
  std::map<std::string, Attribute> attributes;
  std::vector<uint64_t> dense;  // a constant's raw bits: one for a splat, else one an element
  std::vector<Type> types;      // as written after the colon, up to the arrow
  std::vector<Region> regions;
  std::vector<Successor> successors;
  int text_line = 0;  // in the IR text
  int location = -1;  // index into Module::locations
};

struct Function {
  std::string name;
  bool is_public = false;
  std::vector<int> arguments;
  std::vector<std::string> argument_names;
  std::vector<Type> results;
  std::vector<Type> values;  // type of each value id
  Region body;
};

struct Module {
  std::vector<Function> functions;
  std::vector<std::string> locations;  // "candidate.py:12"
  const Function* find(std::string_view name) const;
  const Function& entry() const;  // the public function; throws kUsage where there is not just one
};

// Throws kUsage ("Triton IR line 12, tt.dot: ...") and kUnsupported ("operation tt.foo is not evaluated").
Module parse(std::string_view text, const Limits& limits = {});

// The same text without source locations, which name folders of one evaluation and would make equal kernels differ.
std::string without_locations(std::string_view text);
// A product of float32 matrices has its operands cut to tf32: tl.dot's default precision for an NVIDIA GPU.
bool cuts_to_tf32(std::string_view text);

}  // namespace tritonforge::evaluate::ir
