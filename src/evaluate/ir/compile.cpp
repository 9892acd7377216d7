// Two passes. The first walks the IR and emits instructions over numbered values: calls are inlined; a pure instruction
// goes to the outermost list in which its operands exist (once a launch, once a program, before a loop) and is not
// emitted twice. The second drops what is not used and gives every value a place, reusing those that are free.
#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "evaluate/ir/floats.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {
namespace {

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
  bool shape_operation(const Operation& op, Env& env, const Type& type);
  bool memory_operation(const Operation& op, Env& env, const Type& type);
  void reduction(const Function& function, const Operation& op, Env& env);
  void loop_for(const Function& function, const Operation& op, Env& env);
  void branch_if(const Function& function, const Operation& op, Env& env);
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
  Program program_;
  std::deque<Value> values_;  // references stay valid while it grows
  std::vector<List> lists_;
  std::vector<int> place_of_;
  std::unordered_map<int64_t, std::vector<int>> free_;
  int next_list_ = 0, calls_ = 0, location_ = -1;
  int64_t lanes_ = 0, placed_bytes_ = 0;  // the most lanes of the region under way
  size_t emitted_ = 0;
  std::vector<const Function*> inside_;
};

int Compiler::create(const Type& type, bool single, bool lanes, int level, int list) {
  const int id = static_cast<int>(values_.size());
  Value value{.type = type, .single = single, .lanes = lanes, .level = level, .root = id, .list = list};
  value.bytes = (lanes ? lanes_ : single ? 1 : type.held()) * held_size(type.kind);
  values_.push_back(std::move(value));
  return id;
}

std::vector<int> Compiler::emit(Instruction i, const std::vector<Result>& results, const std::string& key) {
  if (++emitted_ > kMaxInstructions)
    fail(ErrorKind::kUsage, "Triton IR: more than {} instructions after inlining", kMaxInstructions);
  int level = 0;
  bool lanes = false;
  for (const int in : i.in) {
    if (in < 0) continue;
    level = std::max(level, at(in).level);
    lanes = lanes || at(in).lanes;
  }
  std::string name;
  if (i.pure) {
    name = fmt::format("{} {} {} {} {}", key, static_cast<int>(i.kind), static_cast<int>(i.out_kind), i.n,
                       fmt::join(i.in, ","));
    for (auto list = lists_.rbegin(); list != lists_.rend(); ++list) {
      const auto known = list->known.find(name);
      if (known != list->known.end()) return known->second;
    }
  }
  size_t where = lists_.size() - 1;
  if (i.pure) {
    while (where > 0 && lists_[where].level > level) --where;
  }
  List& list = lists_[where];
  i.location = location_;
  if (lanes) i.n = -1;
  for (const Result& result : results)
    i.out.push_back(create(result.type, result.single && !lanes, lanes, list.level, list.id));
  const std::vector<int> out = i.out;
  if (i.pure) list.known[name] = out;
  list.code->push_back(std::move(i));
  return out;
}

int Compiler::alias(int value, const Type& type) {
  Value copy = at(value);
  copy.type = type;
  values_.push_back(copy);
  return static_cast<int>(values_.size()) - 1;
}

// All elements, where one is held for all.
int Compiler::full(int value) {
  const Value& from = at(value);
  if (!from.single || from.type.held() == 1) return value;
  Instruction i{.run = run::spread,
                .kind = from.type.kind,
                .out_kind = from.type.kind,
                .n = from.type.elements(),
                .in = {value},
                .name = "spread"};
  return emit(std::move(i), {{from.type, false}}, "spread").front();
}

int Compiler::constant(const Type& type, std::vector<uint64_t> bits) {
  const bool single = bits.size() == 1;
  std::string key = fmt::format("constant {}", fmt::join(bits, ","));
  Instruction i{.run = run::constant,
                .kind = type.kind,
                .out_kind = type.kind,
                .n = single ? 1 : type.elements(),
                .name = "constant"};
  i.detail = std::make_shared<Detail>();
  i.detail->bits = std::move(bits);
  // Tensors of several shapes may share one held element, but not one value: the type is part of the value.
  key += to_string(type) + std::string(name_of(type.pointee));
  return emit(std::move(i), {{type, single}}, key).front();
}

Move Compiler::move(int from, int to) const {
  return {.from = from,
          .to = to,
          .bytes = at(to).bytes,
          .element = held_size(at(to).type.kind),
          .spread_from = at(from).bytes < at(to).bytes};
}

// A source that is computed in `list` itself and used by one move only is not needed afterwards.
void Compiler::allow_exchange(std::vector<Move>& moves, int list) const {
  for (Move& one : moves) {
    const int from = root(one.from);
    const auto users = std::count_if(moves.begin(), moves.end(),
                                     [&](const Move& other) { return root(other.from) == from; });
    one.exchange = users == 1 && !one.spread_from && values_[static_cast<size_t>(from)].list == list &&
                   values_[static_cast<size_t>(from)].bytes == one.bytes;
  }
}

// Operations of a block up to its terminator.
const Operation* Compiler::block(const Function& function, const Block& block, Env& env) {
  for (const Operation& op : block.operations) {
    const std::string& n = op.name;
    if (n == "tt.return" || n == "scf.yield" || n == "scf.condition" || n == "cf.br" || n == "cf.cond_br" ||
        n == "tt.reduce.return" || n == "tt.scan.return")
      return &op;
    operation(function, op, env);
  }
  return nullptr;
}

std::vector<int> Compiler::call(const Function& function, const std::vector<int>& arguments) {
  if (std::find(inside_.begin(), inside_.end(), &function) != inside_.end())
    fail(ErrorKind::kUsage, "Triton IR: function {} calls itself", function.name);
  if (inside_.size() >= static_cast<size_t>(kMaxCalls))
    fail(ErrorKind::kUsage, "Triton IR: calls are nested deeper than {}", kMaxCalls);
  inside_.push_back(&function);
  Env env(function.values.size(), -1);
  for (size_t k = 0; k < arguments.size(); ++k) env[static_cast<size_t>(function.arguments[k])] = arguments[k];
  std::vector<int> results = control_flow(function, function.body, env);
  inside_.pop_back();
  return results;
}

std::vector<int> Compiler::control_flow(const Function& function, const Region& region, Env& env) {
  const auto ends_with_return = [](const Block& block) {
    return !block.operations.empty() && block.operations.back().name == "tt.return";
  };
  const auto operands = [&](const Operation& op) {
    std::vector<int> out;
    for (size_t k = 0; k < op.operands.size(); ++k) out.push_back(of(env, op, k));
    if (out.size() != function.results.size())
      wrong(op, "{} values, the function has {} results", out.size(), function.results.size());
    for (size_t k = 0; k < out.size(); ++k) {
      if (at(out[k]).type != function.results[k])
        wrong(op, "value {} is {}, the function's result is {}", k, to_string(at(out[k]).type),
              to_string(function.results[k]));
    }
    return out;
  };
  if (ends_with_return(region.blocks.front())) return operands(*block(function, region.blocks.front(), env));
  if (lanes_ > 0)
    fail(ErrorKind::kUnsupported, "a function with several returns ({}) inside a reduction is not evaluated",
         function.name);
  // Blocks that can be reached, in the order of the text.
  std::set<size_t> reached{0};
  std::vector<size_t> open{0};
  while (!open.empty()) {
    const Block& from = region.blocks[open.back()];
    open.pop_back();
    if (from.operations.empty()) continue;
    for (const auto& successor : from.operations.back().successors) {
      if (reached.insert(static_cast<size_t>(successor.block)).second)
        open.push_back(static_cast<size_t>(successor.block));
    }
  }
  std::unordered_map<size_t, int> number;
  for (const size_t index : reached) number[index] = static_cast<int>(number.size());
  Instruction graph{.run = run::graph, .pure = false, .name = "graph"};
  graph.detail = std::make_shared<Detail>();
  graph.bodies.resize(reached.size());
  const int level = here().level;
  std::vector<int> results;
  for (const Type& type : function.results) results.push_back(create(type, false, false, level, -1));
  graph.out = results;
  for (const size_t index : reached) {
    for (const int argument : region.blocks[index].arguments) {
      if (index == 0) continue;
      env[static_cast<size_t>(argument)] = create(function.values[static_cast<size_t>(argument)], false, false, level,
                                                  -1);
      graph.out.push_back(env[static_cast<size_t>(argument)]);
    }
  }
  for (const size_t index : reached) {
    const Block& current = region.blocks[index];
    lists_.push_back({&graph.bodies[static_cast<size_t>(number[index])], level, next_list_++, {}});
    const Operation* end = block(function, current, env);
    if (!end) fail(ErrorKind::kUsage, "Triton IR: a block of {} has no end", function.name);
    Detail::Exit exit;
    if (end->name == "tt.return") {
      const auto values = operands(*end);
      for (size_t k = 0; k < values.size(); ++k) exit.jumps[0].moves.push_back(move(values[k], results[k]));
    } else if (end->name == "cf.br" || end->name == "cf.cond_br") {
      const bool conditional = end->name == "cf.cond_br";
      if (end->successors.size() != (conditional ? 2u : 1u)) wrong(*end, "{} successors", end->successors.size());
      if (conditional) exit.condition = of(env, *end, 0);
      for (size_t side = 0; side < end->successors.size(); ++side) {
        const Successor& next = end->successors[side];
        const auto& arguments = region.blocks[static_cast<size_t>(next.block)].arguments;
        if (next.block == 0 || arguments.size() != next.operands.size())
          wrong(*end, "a jump with {} values to a block with {}", next.operands.size(), arguments.size());
        exit.jumps[side].target = number[static_cast<size_t>(next.block)];
        for (size_t k = 0; k < arguments.size(); ++k) {
          const int from = env[static_cast<size_t>(next.operands[k])], to = env[static_cast<size_t>(arguments[k])];
          if (at(from).type != at(to).type)
            wrong(*end, "a jump with a {} for a {}", to_string(at(from).type), to_string(at(to).type));
          exit.jumps[side].moves.push_back(move(from, to));
        }
      }
    } else {
      wrong(*end, "it ends a block of a function");
    }
    graph.detail->exits.push_back(std::move(exit));
    lists_.pop_back();
  }
  graph.location = location_;
  here().code->push_back(std::move(graph));
  return results;
}

int Compiler::constant_of(const Operation& op, const Type& type) {
  std::vector<uint64_t> bits;
  const bool decimal = op.attributes.contains("decimal");
  for (const uint64_t raw : op.dense) {
    if (!is_float(type.kind)) {
      bits.push_back(type.kind == Kind::kI1 ? raw & 1 : raw);
    } else if (type.kind == Kind::kF64) {
      bits.push_back(raw);  // decimal text is held as double bits, hexadecimal text as its own
    } else {
      float value;
      if (decimal) value = round_to(type.kind, static_cast<float>(std::bit_cast<double>(raw)));
      else if (type.kind == Kind::kF32) value = std::bit_cast<float>(static_cast<uint32_t>(raw));
      else if (type.kind == Kind::kF16) value = half_to_float(static_cast<uint16_t>(raw));
      else if (type.kind == Kind::kBF16) value = bf16_to_float(static_cast<uint16_t>(raw));
      else
        value = type.kind == Kind::kF8E4M3 ? E4M3::to_float(static_cast<uint8_t>(raw))
                                           : E5M2::to_float(static_cast<uint8_t>(raw));
      bits.push_back(std::bit_cast<uint32_t>(value));
    }
  }
  return constant(type, std::move(bits));
}

void Compiler::elementwise_operation(const Operation& op, Env& env, const Type& type) {
  std::vector<int> in;
  std::string word = op.words.empty() ? "" : op.words.front();
  for (size_t k = 0; k < op.operands.size(); ++k) in.push_back(of(env, op, k));
  if (in.empty()) refuse(op);
  const bool selects = op.name == "arith.select";
  const Kind kind = at(in[selects ? std::min<size_t>(1, in.size() - 1) : 0]).type.kind;
  if (op.name == "tt.extern_elementwise") {
    const auto symbol = op.attributes.find("symbol");
    word = symbol == op.attributes.end() ? "" : symbol->second.word;
  }
  Chosen chosen = elementwise(op.name, word, kind, in.size());
  if (!chosen.run && in.size() == 1) {
    const auto rounding = op.attributes.find("rounding");
    chosen = cast(op.name, rounding == op.attributes.end() ? "" : rounding->second.word, kind, type.kind);
  }
  if (!chosen.run) refuse(op, fmt::format("{} on {}", word.empty() ? "" : " (" + word + ")", name_of(kind)));
  bool single = true;
  for (const int value : in) single = single && (at(value).single || at(value).type.held() == 1) && !at(value).lanes;
  // Operands are of the result's shape, or scalars (select's condition).
  for (const int value : in) {
    const Type& own = at(value).type;
    if (own.block ? own.shape != type.shape || !type.block : type.block && !(selects && value == in[0]))
      wrong(op, "an operand of {} for a result of {}", to_string(own), to_string(type));
  }
  for (size_t k = 0; k < in.size(); ++k) {
    const Kind own = at(in[k]).type.kind;
    const bool integer_beside = op.name == "tt.extern_elementwise" && k == 1;
    if (k > 0 && !(selects && k == 1) && own != at(in[selects ? 1 : 0]).type.kind && !integer_beside)
      wrong(op, "operands of {} and {}", name_of(kind), name_of(own));
    if (integer_beside && own != kind && own != Kind::kI32)
      wrong(op, "operands of {} and {}", name_of(kind), name_of(own));
  }
  if (selects && at(in[0]).type.kind != Kind::kI1) wrong(op, "a condition of {}", name_of(at(in[0]).type.kind));
  if (selects && type.kind != kind) wrong(op, "a result of {} for {}", name_of(type.kind), name_of(kind));
  Instruction i{.run = chosen.run,
                .kind = kind,
                .out_kind = type.kind,
                .n = single ? 1 : type.elements(),
                .in = in,
                .name = op.name.c_str(),
                .flops = chosen.flops};
  std::string key = op.name + " " + word;
  if (op.name == "tt.clampf") {
    i.detail = std::make_shared<Detail>();
    const auto nan = op.attributes.find("propagateNan");
    i.detail->flag = nan != op.attributes.end() && nan->second.word == "all";
    key += i.detail->flag ? " nan" : "";
  }
  for (size_t k = 0; k < in.size(); ++k) {
    if ((at(in[k]).single || at(in[k]).type.held() == 1) && !at(in[k]).lanes) i.single |= 1u << k;
  }
  if (single) i.single = 0;
  i.in_place = single ? 0 : ~0u;
  if (const auto rounding = op.attributes.find("rounding"); rounding != op.attributes.end())
    key += " " + rounding->second.word;
  // Comparisons and casts give another type: the result's is part of the expression.
  key += to_string(type);
  env[static_cast<size_t>(op.results.front())] = emit(std::move(i), {{type, single}}, key).front();
}

bool Compiler::shape_operation(const Operation& op, Env& env, const Type& type) {
  const auto set = [&](int value) { env[static_cast<size_t>(op.results.front())] = value; };
  const auto with_shapes = [&](Instruction::Run run, int in) {
    Instruction i{.run = run,
                  .kind = at(in).type.kind,
                  .out_kind = type.kind,
                  .n = type.elements(),
                  .in = {in},
                  .name = op.name.c_str()};
    i.detail = std::make_shared<Detail>();
    i.detail->shape = at(in).type.shape;
    i.detail->out_shape = type.shape;
    return i;
  };
  const auto same_kind = [&](int in) {
    if (at(in).type.kind != type.kind || at(in).type.pointee != type.pointee)
      wrong(op, "{} from {}", to_string(type), to_string(at(in).type));
  };
  const auto axis_of = [&]() {
    const auto axis = op.attributes.find("axis");
    return axis == op.attributes.end() ? int64_t{0} : axis->second.integer;
  };
  const std::string& n = op.name;
  if (n == "tt.splat" || n == "tt.unsplat") {
    const int in = of(env, op, 0);
    same_kind(in);
    if (at(in).type.held() != 1) wrong(op, "of a {}", to_string(at(in).type));
    if (at(in).lanes) refuse(op, " inside a reduction");
    const int out = alias(in, type);
    values_[static_cast<size_t>(out)].single = true;
    set(out);
  } else if (n == "tt.reshape" || n == "tt.expand_dims" || n == "tt.broadcast") {
    const int in = of(env, op, 0);
    same_kind(in);
    const Type& from = at(in).type;
    if (n != "tt.broadcast" || from.shape == type.shape || at(in).single) {
      if (n != "tt.broadcast" && from.elements() != type.elements())
        wrong(op, "{} from {}", to_string(type), to_string(from));
      set(alias(in, type));
      return true;
    }
    if (from.shape.size() != type.shape.size()) wrong(op, "{} from {}", to_string(type), to_string(from));
    for (size_t d = 0; d < from.shape.size(); ++d) {
      if (from.shape[d] != type.shape[d] && from.shape[d] != 1)
        wrong(op, "{} from {}", to_string(type), to_string(from));
    }
    if (from.elements() == 1) {
      const int out = alias(in, type);
      values_[static_cast<size_t>(out)].single = true;
      set(out);
      return true;
    }
    set(emit(with_shapes(run::broadcast, in), {{type, false}}, n + to_string(type)).front());
  } else if (n == "tt.trans") {
    const int in = of(env, op, 0);
    same_kind(in);
    const auto order = op.attributes.find("order");
    if (order == op.attributes.end() || order->second.list.size() != type.shape.size() ||
        at(in).type.shape.size() != type.shape.size())
      wrong(op, "its order does not fit");
    std::vector<bool> seen(type.shape.size());
    for (size_t d = 0; d < type.shape.size(); ++d) {
      const int64_t from = order->second.list[d];
      if (from < 0 || from >= static_cast<int64_t>(type.shape.size()) || seen[static_cast<size_t>(from)] ||
          at(in).type.shape[static_cast<size_t>(from)] != type.shape[d])
        wrong(op, "its order does not fit");
      seen[static_cast<size_t>(from)] = true;
    }
    if (at(in).single) {
      set(alias(in, type));
      return true;
    }
    Instruction i = with_shapes(run::transpose, in);
    i.detail->order = order->second.list;
    set(emit(std::move(i), {{type, false}},
             fmt::format("{} {} {}", n, fmt::join(order->second.list, ","), to_string(type)))
            .front());
  } else if (n == "tt.join" || n == "tt.cat") {
    const int a = full(of(env, op, 0)), b = full(of(env, op, 1));
    same_kind(a);
    if (at(a).type != at(b).type || at(a).type.elements() * 2 != type.elements())
      wrong(op, "{} from {}", to_string(type), to_string(at(a).type));
    Instruction i{.run = n == "tt.join" ? run::join : run::cat,
                  .kind = type.kind,
                  .out_kind = type.kind,
                  .n = type.elements(),
                  .in = {a, b},
                  .name = op.name.c_str()};
    set(emit(std::move(i), {{type, false}}, n + to_string(type)).front());
  } else if (n == "tt.split") {
    const int a = full(of(env, op, 0));
    same_kind(a);
    if (at(a).type.elements() != 2 * type.elements() || op.results.size() != 2)
      wrong(op, "{} from {}", to_string(type), to_string(at(a).type));
    Instruction i{.run = run::split,
                  .kind = type.kind,
                  .out_kind = type.kind,
                  .n = type.elements(),
                  .in = {a},
                  .name = op.name.c_str()};
    const auto out = emit(std::move(i), {{type, type.elements() == 1}, {type, type.elements() == 1}},
                          n + to_string(type));
    for (size_t k = 0; k < 2; ++k) env[static_cast<size_t>(op.results[k])] = out[k];
  } else if (n == "tt.gather") {
    const int source = full(of(env, op, 0)), index = full(of(env, op, 1));
    same_kind(source);
    const int64_t axis = axis_of();
    const Type &from = at(source).type, &by = at(index).type;
    if (axis < 0 || axis >= static_cast<int64_t>(type.shape.size()) || from.shape.size() != type.shape.size() ||
        by.shape != type.shape || (by.kind != Kind::kI32 && by.kind != Kind::kI64))
      wrong(op, "its shapes do not fit");
    for (size_t d = 0; d < type.shape.size(); ++d) {
      if (static_cast<int64_t>(d) != axis && from.shape[d] != type.shape[d]) wrong(op, "its shapes do not fit");
    }
    Instruction i = with_shapes(run::gather, source);
    i.in.push_back(index);
    i.detail->axis = static_cast<int>(axis);
    i.detail->kinds = {by.kind};
    set(emit(std::move(i), {{type, false}}, fmt::format("{} {} {}", n, axis, to_string(type))).front());
  } else if (n == "tt.histogram") {
    const int in = full(of(env, op, 0));
    if (at(in).type.kind != Kind::kI32 || type.kind != Kind::kI32)
      refuse(op, " on " + std::string(name_of(at(in).type.kind)));
    Instruction i = with_shapes(run::histogram, in);
    if (op.operands.size() > 1) i.in.push_back(full(of(env, op, 1)));
    if (i.in.size() > 1 &&
        (at(i.in[1]).type.kind != Kind::kI1 || at(i.in[1]).type.elements() != at(in).type.elements()))
      wrong(op, "its mask does not fit");
    i.detail->list = {at(in).type.elements()};
    set(emit(std::move(i), {{type, false}}, n + to_string(type)).front());
  } else if (n == "tt.dot") {
    const int a = full(of(env, op, 0)), b = full(of(env, op, 1)), c = full(of(env, op, 2));
    const Type &x = at(a).type, &y = at(b).type, &z = at(c).type;
    const size_t rank = type.shape.size();
    if ((rank != 2 && rank != 3) || x.shape.size() != rank || y.shape.size() != rank || z != type || x.kind != y.kind ||
        x.shape[rank - 1] != y.shape[rank - 2] || x.shape[rank - 2] != type.shape[rank - 2] ||
        y.shape[rank - 1] != type.shape[rank - 1] ||
        (rank == 3 && (x.shape[0] != type.shape[0] || y.shape[0] != type.shape[0]))) {
      wrong(op, "{} from {} and {}", to_string(type), to_string(x), to_string(y));
    }
    const bool fits = x.kind == Kind::kI8    ? type.kind == Kind::kI32
                      : x.kind == Kind::kF64 ? type.kind == Kind::kF64
                                             : is_float(x.kind) && is_float(type.kind) && type.kind != Kind::kF64;
    if (!fits) refuse(op, fmt::format(" on {} into {}", name_of(x.kind), name_of(type.kind)));
    Instruction i{.run = run::dot,
                  .kind = x.kind,
                  .out_kind = type.kind,
                  .n = type.elements(),
                  .in = {a, b, c},
                  .in_place = 4,
                  .name = op.name.c_str()};
    i.detail = std::make_shared<Detail>();
    i.detail->shape = x.shape;
    i.detail->out_shape = type.shape;
    const auto precision = op.attributes.find("inputPrecision");
    i.detail->flag = x.kind == Kind::kF32 && precision != op.attributes.end() && precision->second.word == "tf32";
    set(emit(std::move(i), {{type, false}}, fmt::format("{} {}", n, i.detail->flag)).front());
  } else {
    return false;
  }
  return true;
}

bool Compiler::memory_operation(const Operation& op, Env& env, const Type& type) {
  const auto set = [&](int value) { env[static_cast<size_t>(op.results.front())] = value; };
  const auto mask_fits = [&](int mask, const Type& as) {
    if (at(mask).type.kind != Kind::kI1 || at(mask).type.elements() != as.elements())
      wrong(op, "a mask of {} for {}", to_string(at(mask).type), to_string(as));
  };
  const auto value_fits = [&](int value, const Type& as) {
    if (at(value).type.kind != as.kind || at(value).type.elements() != as.elements())
      wrong(op, "a value of {} for {}", to_string(at(value).type), to_string(as));
  };
  const auto singles = [&](Instruction& i) {
    for (size_t k = 0; k < i.in.size(); ++k) {
      if (i.in[k] >= 0 && at(i.in[k]).single) i.single |= 1u << k;
    }
  };
  const auto pointed = [&](int pointer) {
    const Type& own = at(pointer).type;
    if (own.kind != Kind::kPointer) wrong(op, "an address that is {}", to_string(own));
    return Type{.kind = own.pointee, .block = own.block, .shape = own.shape};
  };
  const auto block_pointer = [&](Instruction& i, int tuple, bool descriptor) {
    const Type& own = at(tuple).type;
    if (own.kind != Kind::kTuple) wrong(op, "a block pointer that is {}", to_string(own));
    const size_t rank = own.shape.size();
    if (rank < 1 || rank > 8) refuse(op, fmt::format(" with {} dimensions", rank));
    i.detail = std::make_shared<Detail>();
    i.detail->shape = own.shape;
    i.detail->order.assign(rank, descriptor ? 1 : 0);
    if (const auto checked = op.attributes.find("boundaryCheck"); checked != op.attributes.end()) {
      for (const int64_t d : checked->second.list) {
        if (d < 0 || d >= static_cast<int64_t>(rank)) wrong(op, "a boundary check of dimension {}", d);
        i.detail->order[static_cast<size_t>(d)] = 1;
      }
    }
    if (const auto padding = op.attributes.find("padding"); padding != op.attributes.end())
      i.detail->flag = padding->second.integer == 2;
    if (!descriptor) return;
    if (op.groups.empty() || op.groups.front() != static_cast<int>(rank)) wrong(op, "its offsets do not fit");
    i.detail->list = {1};
    for (size_t k = 0; k < rank; ++k) {
      const int offset = of(env, op, 1 + k);
      i.detail->lanes_a.push_back(offset);
      i.detail->kinds.push_back(at(offset).type.kind);
      if (at(offset).type.block || (at(offset).type.kind != Kind::kI32 && at(offset).type.kind != Kind::kI64))
        wrong(op, "an offset of {}", to_string(at(offset).type));
    }
  };
  const std::string& n = op.name;
  if (n == "tt.addptr") {
    const int pointer = of(env, op, 0), offset = of(env, op, 1);
    const Type &p = at(pointer).type, &o = at(offset).type;
    if (p.kind != Kind::kPointer || !is_integer(o.kind) || o.kind == Kind::kI1 || p.shape != o.shape ||
        p.block != o.block)
      wrong(op, "{} and {}", to_string(p), to_string(o));
    if (at(pointer).lanes || at(offset).lanes) refuse(op, " inside a reduction");
    const bool single = (at(pointer).single || p.held() == 1) && (at(offset).single || o.held() == 1);
    Instruction i{.run = run::address,
                  .kind = o.kind,
                  .out_kind = Kind::kPointer,
                  .n = single ? 1 : type.elements(),
                  .in = {pointer, offset},
                  .in_place = single ? 0u : 3u,
                  .name = op.name.c_str()};
    singles(i);
    if (single) i.single = 0;
    i.detail = std::make_shared<Detail>();
    i.detail->list = {memory_size(p.pointee)};
    set(emit(std::move(i), {{p, single}}, fmt::format("{} {} {}", n, memory_size(p.pointee), to_string(p))).front());
  } else if (n == "tt.load" && at(of(env, op, 0)).type.kind == Kind::kTuple) {
    Instruction i{.run = run::load_block,
                  .kind = type.kind,
                  .out_kind = type.kind,
                  .n = type.elements(),
                  .in = {of(env, op, 0)},
                  .pure = false,
                  .name = op.name.c_str()};
    block_pointer(i, i.in[0], false);
    set(emit(std::move(i), {{type, false}}, "").front());
  } else if (n == "tt.store" && at(of(env, op, 0)).type.kind == Kind::kTuple) {
    const Type own = at(of(env, op, 0)).type, as{.kind = own.pointee, .block = true, .shape = own.shape};
    value_fits(of(env, op, 1), as);
    Instruction i{.run = run::store_block,
                  .kind = own.pointee,
                  .n = as.elements(),
                  .in = {of(env, op, 0), full(of(env, op, 1))},
                  .pure = false,
                  .name = op.name.c_str()};
    block_pointer(i, i.in[0], false);
    emit(std::move(i), {}, "");
  } else if (n == "tt.descriptor_load") {
    Instruction i{.run = run::load_block,
                  .kind = type.kind,
                  .out_kind = type.kind,
                  .n = type.elements(),
                  .in = {of(env, op, 0)},
                  .pure = false,
                  .name = op.name.c_str()};
    block_pointer(i, i.in[0], true);
    const Type own = at(i.in[0]).type;
    if (type.kind != own.pointee || type.elements() != Type{.block = true, .shape = own.shape}.elements())
      wrong(op, "{} from a block of {}", to_string(type), name_of(own.pointee));
    set(emit(std::move(i), {{type, false}}, "").front());
  } else if (n == "tt.descriptor_store") {
    const int tuple = of(env, op, 0), value = of(env, op, op.operands.size() - 1);
    const Type own = at(tuple).type;
    if (own.kind == Kind::kTuple) value_fits(value, {.kind = own.pointee, .block = true, .shape = own.shape});
    Instruction i{.run = run::store_block,
                  .kind = own.pointee,
                  .n = at(value).type.elements(),
                  .in = {tuple, full(value)},
                  .pure = false,
                  .name = op.name.c_str()};
    block_pointer(i, tuple, true);
    emit(std::move(i), {}, "");
  } else if (n == "tt.load") {
    int pointer = of(env, op, 0);
    const Type as = pointed(pointer);
    if (as.kind != type.kind) wrong(op, "a {} through a pointer to {}", to_string(type), name_of(as.kind));
    int mask = op.operands.size() > 1 ? of(env, op, 1) : -1, other = op.operands.size() > 2 ? of(env, op, 2) : -1;
    if (mask >= 0) mask_fits(mask, as);
    if (other >= 0) value_fits(other, as);
    const bool single = at(pointer).single && (mask < 0 || at(mask).single) && (other < 0 || at(other).single);
    if (!single) pointer = full(pointer);
    Instruction i{.run = run::load,
                  .kind = as.kind,
                  .out_kind = as.kind,
                  .n = single ? 1 : as.elements(),
                  .in = {pointer, mask, other},
                  .pure = false,
                  .name = op.name.c_str()};
    singles(i);
    set(emit(std::move(i), {{type, single}}, "").front());
  } else if (n == "tt.store") {
    const int pointer = full(of(env, op, 0)), value = of(env, op, 1);
    const Type as = pointed(pointer);
    value_fits(value, as);
    const int mask = op.operands.size() > 2 ? of(env, op, 2) : -1;
    if (mask >= 0) mask_fits(mask, as);
    Instruction i{.run = run::store,
                  .kind = as.kind,
                  .n = as.elements(),
                  .in = {pointer, full(value), mask},
                  .pure = false,
                  .name = op.name.c_str()};
    singles(i);
    emit(std::move(i), {}, "");
  } else if (n == "tt.atomic_rmw") {
    const int pointer = full(of(env, op, 0)), value = of(env, op, 1),
              mask = op.operands.size() > 2 ? of(env, op, 2) : -1;
    const Type as = pointed(pointer);
    value_fits(value, as);
    if (mask >= 0) mask_fits(mask, as);
    static const std::set<std::string> integers = {"add", "and", "or", "xor", "max", "min", "umax", "umin", "exch"},
                                       floats = {"fadd", "max", "min", "exch"};
    if (op.words.empty() || !(is_float(as.kind) ? floats : integers).contains(op.words[0]))
      refuse(op, fmt::format(" ({} on {})", op.words.empty() ? "" : op.words[0], name_of(as.kind)));
    if (as.kind == Kind::kI1 || as.kind == Kind::kPointer) refuse(op, " on " + std::string(name_of(as.kind)));
    Instruction i{.run = run::atomic_rmw,
                  .kind = as.kind,
                  .out_kind = as.kind,
                  .n = as.elements(),
                  .in = {pointer, value, mask},
                  .pure = false,
                  .name = op.name.c_str()};
    i.detail = std::make_shared<Detail>();
    i.detail->text = op.words[0];
    singles(i);
    set(emit(std::move(i), {{type, false}}, "").front());
  } else if (n == "tt.atomic_cas") {
    const int pointer = full(of(env, op, 0)), expected = of(env, op, 1), value = of(env, op, 2);
    const Type as = pointed(pointer);
    value_fits(expected, as);
    value_fits(value, as);
    Instruction i{.run = run::atomic_cas,
                  .kind = as.kind,
                  .out_kind = as.kind,
                  .n = as.elements(),
                  .in = {pointer, expected, value},
                  .pure = false,
                  .name = op.name.c_str()};
    singles(i);
    set(emit(std::move(i), {{type, false}}, "").front());
  } else if (n == "tt.make_tensor_ptr" || n == "tt.make_tensor_descriptor") {
    if (type.kind != Kind::kTuple) wrong(op, "its type is {}", to_string(type));
    const size_t rank = type.shape.size(), wanted = 1 + (n == "tt.make_tensor_ptr" ? 3 : 2) * rank;
    Instruction i{.run = run::make_tuple, .out_kind = Kind::kTuple, .n = 1, .name = op.name.c_str()};
    for (size_t k = 0; k < op.operands.size(); ++k) i.in.push_back(of(env, op, k));
    if (i.in.size() != wanted || at(i.in[0]).type.kind != Kind::kPointer || at(i.in[0]).type.pointee != type.pointee)
      wrong(op, "its operands do not fit");
    i.detail = std::make_shared<Detail>();
    i.detail->list = {static_cast<int64_t>(rank)};
    for (size_t k = 0; k < i.in.size(); ++k) {
      const Type& own = at(i.in[k]).type;
      if (own.block || (k > 0 && own.kind != Kind::kI32 && own.kind != Kind::kI64))
        wrong(op, "an operand of {}", to_string(own));
      i.detail->kinds.push_back(k == 0 ? Kind::kI64 : own.kind);
    }
    set(emit(std::move(i), {{type, false}},
             fmt::format("{} {} {}", n, fmt::join(type.shape, "x"), name_of(type.pointee)))
            .front());
  } else if (n == "tt.advance") {
    const size_t rank = type.shape.size();
    Instruction i{.run = run::advance, .out_kind = Kind::kTuple, .n = 1, .name = op.name.c_str()};
    for (size_t k = 0; k < op.operands.size(); ++k) i.in.push_back(of(env, op, k));
    if (i.in.size() != 1 + rank || at(i.in[0]).type != type || type.kind != Kind::kTuple)
      wrong(op, "its operands do not fit");
    i.detail = std::make_shared<Detail>();
    i.detail->list = {static_cast<int64_t>(rank)};
    for (size_t k = 1; k < i.in.size(); ++k) {
      const Type& own = at(i.in[k]).type;
      if (own.block || (own.kind != Kind::kI32 && own.kind != Kind::kI64))
        wrong(op, "an operand of {}", to_string(own));
      i.detail->kinds.push_back(own.kind);
    }
    set(emit(std::move(i), {{type, false}}, n).front());
  } else {
    return false;
  }
  return true;
}

// tt.reduce and tt.scan: the region is compiled once, over lanes.
void Compiler::reduction(const Function& function, const Operation& op, Env& env) {
  const bool scans = op.name == "tt.scan";
  if (lanes_ > 0) refuse(op, " inside a reduction");
  if (op.regions.size() != 1 || op.regions[0].blocks.size() != 1 || op.operands.empty())
    wrong(op, "it needs one region of one block");
  const Block& body = op.regions[0].blocks.front();
  const size_t operands = op.operands.size();
  if (body.arguments.size() != 2 * operands || op.results.size() != operands)
    wrong(op, "{} arguments for {} operands", body.arguments.size(), operands);
  Instruction i{.run = scans ? run::scan : run::reduce, .name = op.name.c_str()};
  i.detail = std::make_shared<Detail>();
  Detail& d = *i.detail;
  for (size_t k = 0; k < operands; ++k) {
    i.in.push_back(full(of(env, op, k)));
    d.kinds.push_back(at(i.in[k]).type.kind);
  }
  d.shape = at(i.in[0]).type.shape;
  for (const int in : i.in) {
    if (at(in).type.shape != d.shape || !at(in).type.block) wrong(op, "operands of different shapes");
  }
  const auto axis = op.attributes.find("axis");
  d.axis = axis == op.attributes.end() ? -1 : static_cast<int>(std::clamp<int64_t>(axis->second.integer, -1, 100));
  if (d.axis < 0 || d.axis >= static_cast<int>(d.shape.size()))
    wrong(op, "axis {} of {} dimensions", d.axis, d.shape.size());
  if (const auto reverse = op.attributes.find("reverse"); reverse != op.attributes.end())
    d.reverse = reverse->second.integer != 0;
  for (size_t k = 0; k < operands; ++k) {
    const Type& result = function.values[static_cast<size_t>(op.results[k])];
    const int64_t wanted = at(i.in[k]).type.elements() / (scans ? 1 : d.shape[static_cast<size_t>(d.axis)]);
    if (result.kind != d.kinds[k] || result.elements() != wanted)
      wrong(op, "a result of {} from {}", to_string(result), to_string(at(i.in[k]).type));
  }
  // The region, on as many lanes as the largest step has.
  const int64_t elements = at(i.in[0]).type.elements();
  lanes_ = std::max<int64_t>(1, elements);
  i.bodies.resize(1);
  lists_.push_back({&i.bodies[0], here().level + 1, next_list_++, {}});
  for (size_t k = 0; k < 2 * operands; ++k) {
    const Type& type = function.values[static_cast<size_t>(body.arguments[k])];
    if (type.block || type.kind != d.kinds[k % operands]) wrong(op, "an argument of {}", to_string(type));
    const int value = create(type, false, true, here().level, here().id);
    env[static_cast<size_t>(body.arguments[k])] = value;
    (k < operands ? d.lanes_a : d.lanes_b).push_back(value);
  }
  const Operation* end = block(function, body, env);
  if (!end || end->operands.size() != operands) wrong(op, "its region returns something else");
  for (size_t k = 0; k < operands; ++k) {
    int value = of(env, *end, k);
    if (at(value).type.kind != d.kinds[k] || at(value).type.block)
      wrong(op, "its region returns a {}", to_string(at(value).type));
    if (!at(value).lanes) {  // the same for all lanes
      Instruction spread{.run = run::spread,
                         .kind = d.kinds[k],
                         .out_kind = d.kinds[k],
                         .n = -1,
                         .in = {value},
                         .pure = false,
                         .name = "spread"};
      spread.out = {create(at(value).type, false, true, here().level, here().id)};
      value = spread.out[0];
      here().code->push_back(std::move(spread));
    }
    d.lanes_out.push_back(value);
  }
  lists_.pop_back();
  lanes_ = 0;
  static const std::set<std::string> commutative = {
      "arith.addf",     "arith.mulf",    "arith.addi",    "arith.muli",  "arith.maximumf",
      "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.maxsi", "arith.minsi",
      "arith.maxui",    "arith.minui",   "arith.andi",    "arith.ori",   "arith.xori"};
  std::unordered_set<int> used;
  for (const int value : d.lanes_out) used.insert(root(value));
  drop_unused(i.bodies[0], used);
  d.flag = operands == 1 && i.bodies[0].size() == 1 && commutative.contains(i.bodies[0][0].name) &&
           i.bodies[0][0].in.size() == 2 &&
           std::set<int>(i.bodies[0][0].in.begin(), i.bodies[0][0].in.end()) ==
               std::set<int>{d.lanes_a[0], d.lanes_b[0]};
  // Emitted where its operands exist, but with values of its own: its expression is not shared.
  i.pure = false;
  i.location = location_;
  std::vector<int> results;
  for (size_t k = 0; k < operands; ++k) {
    const Type& type = function.values[static_cast<size_t>(op.results[k])];
    results.push_back(create(type, false, false, here().level, here().id));
    env[static_cast<size_t>(op.results[k])] = results[k];
  }
  i.out = results;
  i.out.insert(i.out.end(), d.lanes_a.begin(), d.lanes_a.end());
  i.out.insert(i.out.end(), d.lanes_b.begin(), d.lanes_b.end());
  here().code->push_back(std::move(i));
}

void Compiler::loop_for(const Function& function, const Operation& op, Env& env) {
  if (lanes_ > 0) refuse(op, " inside a reduction");
  const Block& body = op.regions[0].blocks.front();
  const size_t carried = op.operands.size() - 3;
  Instruction loop{.run = run::loop_for, .pure = false, .name = op.name.c_str()};
  loop.detail = std::make_shared<Detail>();
  const int list = next_list_++;
  const int level = here().level + 1;
  const Type counter = function.values[static_cast<size_t>(body.arguments[0])];
  for (size_t k = 0; k < 3; ++k) {
    loop.in.push_back(of(env, op, k));
    if (at(loop.in[k]).type != counter)
      wrong(op, "a bound of {} for a counter of {}", to_string(at(loop.in[k]).type), to_string(counter));
  }
  if (op.attributes.contains("unsigned") && counter.kind != Kind::kI64) refuse(op, " (unsigned)");
  loop.kind = counter.kind;
  std::vector<int> arguments;
  for (size_t k = 0; k < carried; ++k) {
    const Type& type = function.values[static_cast<size_t>(body.arguments[1 + k])];
    const int start = of(env, op, 3 + k);
    if (at(start).type != type) wrong(op, "a start of {} for {}", to_string(at(start).type), to_string(type));
    arguments.push_back(create(type, false, false, level, -1));
    env[static_cast<size_t>(body.arguments[1 + k])] = arguments[k];
    loop.detail->moves_in.push_back(move(start, arguments[k]));
    loop.out.push_back(arguments[k]);
  }
  const int induction = create(counter, false, false, level, -1);
  env[static_cast<size_t>(body.arguments[0])] = induction;
  loop.out.push_back(induction);
  loop.bodies.resize(1);
  lists_.push_back({&loop.bodies[0], level, list, {}});
  const Operation* end = block(function, body, env);
  if (carried > 0 && (!end || end->operands.size() != carried)) wrong(op, "its body yields something else");
  for (size_t k = 0; k < carried; ++k) {
    const int value = of(env, *end, k);
    if (at(value).type != at(arguments[k]).type)
      wrong(op, "its body yields {} for {}", to_string(at(value).type), to_string(at(arguments[k]).type));
    loop.detail->moves.push_back(move(value, arguments[k]));
  }
  allow_exchange(loop.detail->moves, list);
  lists_.pop_back();
  for (size_t k = 0; k < carried; ++k) {
    const int result = alias(arguments[k], at(arguments[k]).type);
    values_[static_cast<size_t>(result)].level = here().level;
    env[static_cast<size_t>(op.results[k])] = result;
  }
  loop.location = location_;
  here().code->push_back(std::move(loop));
}

void Compiler::branch_if(const Function& function, const Operation& op, Env& env) {
  if (lanes_ > 0) refuse(op, " inside a reduction");
  Instruction branch{.run = run::branch_if, .pure = false, .name = op.name.c_str()};
  branch.detail = std::make_shared<Detail>();
  branch.in = {of(env, op, 0)};
  if (at(branch.in[0]).type.kind != Kind::kI1 || at(branch.in[0]).type.block)
    wrong(op, "a condition of {}", to_string(at(branch.in[0]).type));
  std::vector<int> results;
  for (const int result : op.results) {
    results.push_back(create(function.values[static_cast<size_t>(result)], false, false, here().level, here().id));
    branch.out.push_back(results.back());
  }
  if (!results.empty() && op.regions.size() != 2) wrong(op, "results without an else");
  branch.bodies.resize(op.regions.size());
  for (size_t side = 0; side < op.regions.size(); ++side) {
    const int list = next_list_++;
    lists_.push_back({&branch.bodies[side], here().level, list, {}});
    const Operation* end = block(function, op.regions[side].blocks.front(), env);
    auto& moves = side == 0 ? branch.detail->moves : branch.detail->moves_out;
    if (!results.empty() && (!end || end->operands.size() != results.size()))
      wrong(op, "a branch yields something else");
    for (size_t k = 0; k < results.size(); ++k) {
      const int value = of(env, *end, k);
      if (at(value).type != at(results[k]).type)
        wrong(op, "a branch yields {} for {}", to_string(at(value).type), to_string(at(results[k]).type));
      moves.push_back(move(value, results[k]));
    }
    allow_exchange(moves, list);
    lists_.pop_back();
  }
  for (size_t k = 0; k < results.size(); ++k) env[static_cast<size_t>(op.results[k])] = results[k];
  branch.location = location_;
  here().code->push_back(std::move(branch));
}

void Compiler::loop_while(const Function& function, const Operation& op, Env& env) {
  if (lanes_ > 0) refuse(op, " inside a reduction");
  const Block &before = op.regions[0].blocks.front(), &after = op.regions[1].blocks.front();
  Instruction loop{.run = run::loop_while, .pure = false, .name = op.name.c_str()};
  loop.detail = std::make_shared<Detail>();
  const int level = here().level + 1;
  std::vector<int> carried, passed;
  for (size_t k = 0; k < before.arguments.size(); ++k) {
    const Type& type = function.values[static_cast<size_t>(before.arguments[k])];
    const int start = of(env, op, k);
    if (at(start).type != type) wrong(op, "a start of {} for {}", to_string(at(start).type), to_string(type));
    carried.push_back(create(type, false, false, level, -1));
    env[static_cast<size_t>(before.arguments[k])] = carried[k];
    loop.detail->moves_in.push_back(move(start, carried[k]));
  }
  for (const int argument : after.arguments) {
    passed.push_back(create(function.values[static_cast<size_t>(argument)], false, false, level, -1));
    env[static_cast<size_t>(argument)] = passed.back();
  }
  loop.out = carried;
  loop.out.insert(loop.out.end(), passed.begin(), passed.end());
  loop.bodies.resize(2);
  const int first = next_list_++, second = next_list_++;
  lists_.push_back({&loop.bodies[0], level, first, {}});
  const Operation* end = block(function, before, env);
  if (!end || end->name != "scf.condition" || end->operands.size() != 1 + passed.size())
    wrong(op, "its condition passes on something else");
  loop.detail->lanes_a = {of(env, *end, 0)};
  if (at(loop.detail->lanes_a[0]).type.kind != Kind::kI1 || at(loop.detail->lanes_a[0]).type.block)
    wrong(op, "a condition of {}", to_string(at(loop.detail->lanes_a[0]).type));
  for (size_t k = 0; k < passed.size(); ++k) {
    const int value = of(env, *end, 1 + k);
    if (at(value).type != at(passed[k]).type)
      wrong(op, "its condition passes {} for {}", to_string(at(value).type), to_string(at(passed[k]).type));
    loop.detail->moves.push_back(move(value, passed[k]));
  }
  allow_exchange(loop.detail->moves, first);
  lists_.pop_back();
  lists_.push_back({&loop.bodies[1], level, second, {}});
  end = block(function, after, env);
  if (carried.size() > 0 && (!end || end->operands.size() != carried.size()))
    wrong(op, "its body yields something else");
  for (size_t k = 0; k < carried.size(); ++k) {
    const int value = of(env, *end, k);
    if (at(value).type != at(carried[k]).type)
      wrong(op, "its body yields {} for {}", to_string(at(value).type), to_string(at(carried[k]).type));
    loop.detail->moves_out.push_back(move(value, carried[k]));
  }
  allow_exchange(loop.detail->moves_out, second);
  lists_.pop_back();
  if (op.results.size() != passed.size())
    wrong(op, "{} results, its condition passes {}", op.results.size(), passed.size());
  for (size_t k = 0; k < passed.size(); ++k) {
    const int result = alias(passed[k], at(passed[k]).type);
    values_[static_cast<size_t>(result)].level = here().level;
    env[static_cast<size_t>(op.results[k])] = result;
  }
  loop.location = location_;
  here().code->push_back(std::move(loop));
}

void Compiler::operation(const Function& function, const Operation& op, Env& env) {
  location_ = op.location;
  for (const int operand : op.operands) {
    if (env[static_cast<size_t>(operand)] < 0) wrong(op, "an operand is not computed on every way to it");
  }
  const std::string& n = op.name;
  const Type type = op.results.empty() ? Type{} : function.values[static_cast<size_t>(op.results.front())];
  const auto set = [&](int value) { env[static_cast<size_t>(op.results.front())] = value; };
  const auto simple = [&](Instruction::Run run, int axis) {
    Instruction i{.run = run, .out_kind = Kind::kI32, .n = 1, .name = op.name.c_str()};
    i.detail = std::make_shared<Detail>();
    i.detail->axis = axis;
    return i;
  };
  const auto axis_word = [&] {
    const std::string word = op.words.empty() ? "" : op.words.front();
    if (word != "x" && word != "y" && word != "z") wrong(op, "axis '{}'", word);
    return word[0] - 'x';
  };
  const auto results_needed = [&](size_t count) {
    if (op.results.size() != count) wrong(op, "{} results", op.results.size());
  };
  if (n == "scf.for") return loop_for(function, op, env);
  if (n == "scf.if") return branch_if(function, op, env);
  if (n == "scf.while") return loop_while(function, op, env);
  if (n == "tt.reduce" || n == "tt.scan") return reduction(function, op, env);
  if (n == "gpu.barrier" || n == "ttg.barrier" || n == "tt.print" || n == "llvm.intr.assume") return;
  if (n == "tt.call") {
    const auto callee = op.attributes.find("callee");
    const Function* target = callee == op.attributes.end() ? nullptr : module_.find(callee->second.word);
    if (!target) wrong(op, "no function of that name");
    if (target->arguments.size() != op.operands.size() ||
        (op.results.size() != target->results.size() && !op.results.empty()))
      wrong(op, "it does not fit {}", target->name);
    std::vector<int> arguments;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      arguments.push_back(of(env, op, k));
      if (at(arguments[k]).type != target->values[static_cast<size_t>(target->arguments[k])])
        wrong(op, "argument {} does not fit {}", k, target->name);
    }
    const auto results = call(*target, arguments);
    for (size_t k = 0; k < op.results.size(); ++k) env[static_cast<size_t>(op.results[k])] = results[k];
    return;
  }
  if (n == "tt.assert") {
    const auto text = op.attributes.find("text");
    const int holds = full(of(env, op, 0));
    if (at(holds).type.kind != Kind::kI1) wrong(op, "a condition of {}", to_string(at(holds).type));
    Instruction i{.run = run::check, .n = 1, .in = {holds}, .pure = false, .name = op.name.c_str()};
    i.detail = std::make_shared<Detail>();
    i.detail->list = {at(i.in[0]).type.elements()};
    i.detail->text = text == op.attributes.end() ? "" : text->second.word;
    emit(std::move(i), {}, "");
    return;
  }
  if (n == "tt.store" || n == "tt.descriptor_store") {
    if (!op.operands.empty() && memory_operation(op, env, type)) return;
    refuse(op);
  }
  if (n != "tt.split") results_needed(1);
  if (n == "arith.constant") return set(constant_of(op, type));
  if (n == "ub.poison") return set(constant(type, {0}));
  if (n == "tt.make_range") {
    const auto start = op.attributes.find("start"), end = op.attributes.find("end");
    if (start == op.attributes.end() || end == op.attributes.end() || type.kind != Kind::kI32 ||
        end->second.integer - start->second.integer != type.elements())
      wrong(op, "its bounds do not fit {}", to_string(type));
    Instruction i{.run = run::range, .out_kind = Kind::kI32, .n = type.elements(), .name = op.name.c_str()};
    i.detail = std::make_shared<Detail>();
    i.detail->list = {start->second.integer};
    return set(emit(std::move(i), {{type, type.elements() == 1}},
                    fmt::format("range {} {}", start->second.integer, to_string(type)))
                   .front());
  }
  if (n == "tt.get_program_id") {
    Instruction i = simple(run::program_id, axis_word());
    i.pure = false;  // not hoisted out of the program, but emitted once at its start
    const std::string key = fmt::format("program_id {}", i.detail->axis);
    List& list = lists_[1];
    auto& known = list.known[key];
    if (known.empty()) {
      i.out = known = {create(type, false, false, 1, list.id)};
      // At the front, so that it stands before every use of the program's list.
      list.code->insert(list.code->begin(), std::move(i));
    }
    return set(known.front());
  }
  if (n == "tt.get_num_programs") {
    Instruction i = simple(run::num_programs, axis_word());
    return set(emit(std::move(i), {{type, false}}, fmt::format("num_programs {}", i.detail->axis)).front());
  }
  if (op.operands.empty()) refuse(op);
  if (n == "tt.int_to_ptr" || n == "tt.ptr_to_int" || n == "tt.bitcast" || n == "arith.bitcast") {
    const int in = of(env, op, 0);
    const Type& from = at(in).type;
    if (memory_size(from.kind) != memory_size(type.kind) || from.kind == Kind::kTuple || type.kind == Kind::kTuple ||
        from.shape != type.shape || (from.kind == Kind::kI1) != (type.kind == Kind::kI1)) {
      wrong(op, "{} from {}", to_string(type), to_string(from));
    }
    if (held_size(from.kind) == memory_size(from.kind) && held_size(type.kind) == memory_size(type.kind))
      return set(alias(in, type));
    if (from.kind == type.kind) return set(in);
    return elementwise_operation(op, env, type);
  }
  if (shape_operation(op, env, type) || memory_operation(op, env, type)) return;
  elementwise_operation(op, env, type);
}

// ---- second pass ----

// Values that a body must still hold at its end.
template <typename Use>
void Compiler::kept_inside(const Instruction& i, Use use) const {
  if (i.bodies.empty() || !i.detail) return;
  const auto moves = [&](const std::vector<Move>& list) {
    for (const Move& one : list) use(root(one.from)), use(root(one.to));
  };
  moves(i.detail->moves);
  moves(i.detail->moves_out);
  for (const int value : i.detail->lanes_a) use(root(value));
  for (const int value : i.detail->lanes_b) use(root(value));
  for (const int value : i.detail->lanes_out) use(root(value));
  for (const auto& exit : i.detail->exits) {
    if (exit.condition >= 0) use(root(exit.condition));
    for (const auto& jump : exit.jumps) moves(jump.moves);
  }
}

template <typename Use>
void Compiler::uses(const Instruction& i, Use use) const {
  for (const int in : i.in) {
    if (in >= 0) use(root(in));
  }
  if (!i.detail) return;
  for (const Move& one : i.detail->moves_in) use(root(one.from));
  if (i.bodies.empty()) {
    for (const int value : i.detail->lanes_a) use(root(value));
  }
  kept_inside(i, use);
  for (const Code& body : i.bodies) {
    for (const Instruction& inner : body) uses(inner, use);
  }
}

void Compiler::drop_unused(Code& code, std::unordered_set<int>& used) {
  Code kept;
  for (auto i = code.rbegin(); i != code.rend(); ++i) {
    // A reduction changes nothing but its results; the other instructions with bodies may store.
    const bool droppable = i->pure || i->run == run::reduce || i->run == run::scan || i->run == run::program_id;
    const bool needed = !droppable ||
                        std::any_of(i->out.begin(), i->out.end(), [&](int out) { return used.contains(root(out)); });
    if (!needed) continue;
    for (const int in : i->in) {
      if (in >= 0) used.insert(root(in));
    }
    if (i->detail) {
      for (const Move& one : i->detail->moves_in) used.insert(root(one.from));
      if (i->bodies.empty()) {
        for (const int value : i->detail->lanes_a) used.insert(root(value));
      }
    }
    kept_inside(*i, [&](int value) { used.insert(value); });
    // A graph's blocks use each other's values, in an order that need not be theirs in the text.
    if (i->run == run::graph) {
      for (const Code& body : i->bodies) {
        for (const Instruction& inner : body) uses(inner, [&](int value) { used.insert(value); });
      }
    }
    for (auto body = i->bodies.rbegin(); body != i->bodies.rend(); ++body) drop_unused(*body, used);
    kept.push_back(std::move(*i));
  }
  std::reverse(kept.begin(), kept.end());
  code = std::move(kept);
}

int Compiler::take_place(int64_t bytes, bool for_ever) {
  auto& free = free_[bytes];
  if (!for_ever && !free.empty()) {
    const int place = free.back();
    free.pop_back();
    return place;
  }
  placed_bytes_ += bytes;
  if (placed_bytes_ > kMaxPlaces)
    fail(ErrorKind::kUsage, "Triton IR: the values of one program need more than {} MiB", kMaxPlaces >> 20);
  program_.places.push_back(bytes);
  return static_cast<int>(program_.places.size()) - 1;
}

void Compiler::give_places(Code& code, const std::unordered_set<int>& keep, bool for_ever) {
  std::unordered_map<int, size_t> last;  // root -> instruction after which it is not needed
  std::unordered_set<int> own;
  for (size_t k = 0; k < code.size(); ++k) {
    for (const int out : code[k].out) own.insert(root(out)), last[root(out)] = k;
    uses(code[k], [&](int value) { last[value] = k; });
  }
  std::unordered_map<size_t, std::vector<int>> dying;
  for (const auto& [value, k] : last) {
    if (own.contains(value) && !keep.contains(value)) dying[k].push_back(value);
  }
  const auto release = [&](int value) {
    free_[values_[static_cast<size_t>(value)].bytes].push_back(place_of_[static_cast<size_t>(value)]);
  };
  for (size_t k = 0; k < code.size(); ++k) {
    Instruction& i = code[k];
    auto& dead = dying[k];
    std::sort(dead.begin(), dead.end());
    // An operand that dies here may give its place to the result.
    if (!for_ever && i.in_place) {
      for (size_t o = 0; o < i.in.size(); ++o) {
        const int value = root(i.in[o]);
        const auto found = std::find(dead.begin(), dead.end(), value);
        if (!(i.in_place >> o & 1) || (i.single >> o & 1) || found == dead.end() ||
            std::find(i.out.begin(), i.out.end(), value) != i.out.end())
          continue;
        // Not where another operand that must stay readable shares it.
        bool shared = false;
        for (size_t p = 0; p < i.in.size(); ++p)
          shared = shared || (p != o && root(i.in[p]) == value && !(i.in_place >> p & 1));
        if (shared) continue;
        release(value);
        dead.erase(found);
      }
    }
    for (const int out : i.out)
      place_of_[static_cast<size_t>(root(out))] = take_place(values_[static_cast<size_t>(root(out))].bytes, for_ever);
    if (!i.bodies.empty()) {
      std::unordered_set<int> inner_keep;
      kept_inside(i, [&](int value) { inner_keep.insert(value); });
      if (i.run == run::graph) {  // values live from block to block
        for (Code& body : i.bodies) {
          for (const Instruction& inner : body) uses(inner, [&](int value) { inner_keep.insert(value); });
        }
      }
      std::unordered_set<int> allocated;
      for (Code& body : i.bodies) {
        give_places(body, inner_keep, for_ever);
        for (const Instruction& inner : body) {
          for (const int out : inner.out) {
            if (inner_keep.contains(root(out))) allocated.insert(root(out));
          }
        }
      }
      if (!for_ever) {
        std::vector<int> ordered(allocated.begin(), allocated.end());
        std::sort(ordered.begin(), ordered.end());
        for (const int value : ordered) release(value);
      }
    }
    if (for_ever) continue;
    for (const int value : dead) release(value);
  }
}

// Values become places.
void Compiler::use_places(Code& code) {
  const auto place = [&](int& value) {
    if (value >= 0) value = place_of_[static_cast<size_t>(root(value))];
  };
  const auto moves = [&](std::vector<Move>& list) {
    for (Move& one : list) place(one.from), place(one.to);
  };
  for (Instruction& i : code) {
    ++program_.instructions;
    for (int& in : i.in) place(in);
    for (int& out : i.out) place(out);
    if (i.detail) {
      Detail& d = *i.detail;
      for (auto* list : {&d.lanes_a, &d.lanes_b, &d.lanes_out}) {
        for (int& value : *list) place(value);
      }
      moves(d.moves), moves(d.moves_in), moves(d.moves_out);
      for (auto& exit : d.exits) {
        place(exit.condition);
        for (auto& jump : exit.jumps) moves(jump.moves);
      }
    }
    for (Code& body : i.bodies) use_places(body);
  }
}

// Programs are ordered by atomics where the kernel looks at what an atomic found; then every atomic takes part.
bool looks_at_atomics(const Code& code, const std::unordered_set<int>& used, const auto& root) {
  return std::any_of(code.begin(), code.end(), [&](const Instruction& i) {
    return i.run == run::atomic_cas || (i.run == run::atomic_rmw && used.contains(root(i.out[0]))) ||
           std::any_of(i.bodies.begin(), i.bodies.end(),
                       [&](const Code& body) { return looks_at_atomics(body, used, root); });
  });
}

void let_atomics_order(Code& code) {
  for (Instruction& i : code) {
    if (i.run == run::atomic_rmw) i.detail->flag = true;
    for (Code& body : i.bodies) let_atomics_order(body);
  }
}

Program Compiler::run() {
  const Function& entry = module_.entry();
  program_.kernel = entry.name;
  program_.locations = module_.locations;
  lists_.push_back({&program_.launch_code, 0, next_list_++, {}});
  lists_.push_back({&program_.code, 1, next_list_++, {}});
  std::vector<int> arguments;
  for (size_t k = 0; k < entry.arguments.size(); ++k) {
    const Type& type = entry.values[static_cast<size_t>(entry.arguments[k])];
    if (type.block || type.kind == Kind::kTuple)
      fail(ErrorKind::kUnsupported, "an argument of {} ('{}') is not evaluated", to_string(type),
           entry.argument_names[k]);
    arguments.push_back(create(type, false, false, 0, -1));
    program_.parameters.push_back({.name = entry.argument_names[k], .kind = type.kind, .pointee = type.pointee});
  }
  if (!entry.results.empty()) fail(ErrorKind::kUsage, "Triton IR: kernel {} has results", entry.name);
  call(entry, arguments);

  std::unordered_set<int> used;
  drop_unused(program_.code, used);
  drop_unused(program_.launch_code, used);
  if (looks_at_atomics(program_.code, used, [this](int value) { return root(value); }))
    let_atomics_order(program_.code);
  place_of_.assign(values_.size(), -1);
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (!used.contains(arguments[k])) continue;
    place_of_[static_cast<size_t>(arguments[k])] = program_.parameters[k].place = take_place(8, true);
  }
  give_places(program_.launch_code, {}, true);
  give_places(program_.code, {}, false);
  use_places(program_.launch_code);
  use_places(program_.code);
  return std::move(program_);
}

}  // namespace

Program compile(const Module& module) { return Compiler(module).run(); }

}  // namespace tritonforge::evaluate::ir
