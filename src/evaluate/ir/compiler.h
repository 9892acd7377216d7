#pragma once
// The compile step's own state; used by its files only.
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "evaluate/ir/program.h"

namespace tritonforge::evaluate::ir {

constexpr size_t kMaxInstructions = 400'000;
constexpr int kMaxCalls = 64;
constexpr int64_t kMaxPlaces = int64_t{1} << 30;  // bytes of all values of one program

struct Value {
  Type type;
  bool single = false;  // one element is held for all
  bool lanes = false;   // of a reduction's region: as many elements as the region is run on
  int level = 0;        // 0: the same for a whole launch, 1: for a program, then one a loop
  int root = -1;        // the value whose place holds it
  int list = -1;        // where it is computed
  int64_t bytes = 0;
};

struct List {
  Code* code;
  int level, id;
  std::unordered_map<std::string, std::vector<int>> known;  // expression -> its values
};

using Env = std::vector<int>;

class Compiler {
 public:
  explicit Compiler(const Module& module) : module_(module) {}
  Program run();

 private:
  struct Result {
    Type type;
    bool single = false;
  };
  template <typename... Args>
  [[noreturn]] void wrong(const Operation& op, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kUsage, "Triton IR line {}, {}: {}", op.text_line, op.name,
         fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse(const Operation& op, const std::string& why = "") const {
    fail(ErrorKind::kUnsupported, "operation {} is not evaluated{}", op.name, why);
  }

  // Emitting.
  int create(const Type& type, bool single, bool lanes, int level, int list);
  std::vector<int> emit(Instruction i, const std::vector<Result>& results, const std::string& key);
  int alias(int value, const Type& type);
  int full(int value);
  int constant(const Type& type, std::vector<uint64_t> bits);
  Move move(int from, int to) const;
  void allow_exchange(std::vector<Move>& moves, int list) const;
  const Value& at(int value) const { return values_[static_cast<size_t>(value)]; }
  List& here() { return lists_.back(); }

  // Walking.
  int of(const Env& env, const Operation& op, size_t index) const {
    if (index >= op.operands.size()) wrong(op, "operand {} is missing", index);
    return env[static_cast<size_t>(op.operands[index])];
  }
  const Operation* block(const Function& function, const Block& block, Env& env);  // its terminator
  void operation(const Function& function, const Operation& op, Env& env);
  std::vector<int> call(const Function& function, const std::vector<int>& arguments);
  std::vector<int> control_flow(const Function& function, const Region& region, Env& env);
  int reordered(int in, const Type& type);
  bool shape_operation(const Operation& op, Env& env, const Type& type);
  bool memory_operation(const Operation& op, Env& env, const Type& type);
  void reduction(const Function& function, const Operation& op, Env& env);
  void map_elementwise(const Function& function, const Operation& op, Env& env);
  void loop_for(const Function& function, const Operation& op, Env& env);
  void branch_if(const Function& function, const Operation& op, Env& env);
  void branch_of_lanes(const Function& function, const Operation& op, Env& env);
  void loop_while(const Function& function, const Operation& op, Env& env);
  int constant_of(const Operation& op, const Type& type);
  void elementwise_operation(const Operation& op, Env& env, const Type& type);

  // Second pass.
  int root(int value) const { return value < 0 ? -1 : at(value).root; }
  template <typename Use>
  void kept_inside(const Instruction& i, Use use) const;
  template <typename Use>
  void uses(const Instruction& i, Use use) const;
  void drop_unused(Code& code, std::unordered_set<int>& used);
  int take_place(int64_t bytes, bool for_ever);
  void give_places(Code& code, const std::unordered_set<int>& keep, bool for_ever);
  void use_places(Code& code);

  const Module& module_;
  std::deque<Operation> made_;  // that the text does not have
  Program program_;
  std::deque<Value> values_;  // references stay valid while it grows
  std::vector<List> lists_;
  std::vector<int> place_of_;
  std::unordered_map<int64_t, std::vector<int>> free_;
  int next_list_ = 0, calls_ = 0, location_ = -1;
  int64_t lanes_ = 0, placed_bytes_ = 0;  // the most lanes of the region under way
  size_t emitted_ = 0;
  std::vector<const Function*> inside_;
  int64_t reorders_ = 0;
  std::unordered_map<int, int> in_order_;  // what a reordered value is made of, in its shape
};

}  // namespace tritonforge::evaluate::ir
