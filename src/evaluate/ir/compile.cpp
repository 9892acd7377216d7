// Two passes. The first walks the IR and emits instructions over numbered values: calls are inlined; a pure instruction
// goes to the outermost list in which its operands exist (once a launch, once a program, before a loop) and is not
// emitted twice. The second (places.cpp) drops what is not used and gives every value a place, reusing those that are
// free.
#include "evaluate/ir/compiler.h"

#include <algorithm>
#include <set>

#include "evaluate/ir/floats.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {

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
        n == "tt.reduce.return" || n == "tt.scan.return" || n == "tt.map_elementwise.return")
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
  std::vector<int> given;
  for (size_t k = 0; k < operands; ++k) given.push_back(of(env, op, k));
  const bool of_all = !scans && std::ranges::all_of(given, [&](int value) {
    return at(value).type.shape.size() == 1 && (at(value).single || in_order_.contains(value));
  });
  for (size_t k = 0; k < operands; ++k) {
    i.in.push_back(full(of_all && in_order_.contains(given[k]) ? in_order_.at(given[k]) : given[k]));
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
  std::unordered_set<int> used;
  for (const int value : d.lanes_out) used.insert(root(value));
  drop_unused(i.bodies[0], used);
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

// The region is run on one element after the other, since it may branch and loop.
void Compiler::map_elementwise(const Function& function, const Operation& op, Env& env) {
  if (lanes_ > 0) refuse(op, " inside a reduction");
  if (op.regions.size() != 1 || op.regions[0].blocks.size() != 1 || op.operands.empty() || op.results.empty())
    wrong(op, "it needs operands and one region of one block");
  if (const auto pack = op.attributes.find("pack"); pack != op.attributes.end() && pack->second.integer != 1)
    refuse(op, " on several elements at once");
  const Block& body = op.regions[0].blocks.front();
  if (body.arguments.size() != op.operands.size())
    wrong(op, "{} arguments for {} operands", body.arguments.size(), op.operands.size());
  Instruction i{.run = run::map_elements, .pure = false, .name = op.name.c_str()};
  i.detail = std::make_shared<Detail>();
  const int list = next_list_++, level = here().level + 1;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const Type& argument = function.values[static_cast<size_t>(body.arguments[k])];
    i.in.push_back(full(of(env, op, k)));
    const Type& given = at(i.in[k]).type;
    if (argument.block || argument.kind != given.kind || argument.kind == Kind::kTuple ||
        given.shape != at(i.in[0]).type.shape)
      wrong(op, "an argument of {} for {}", to_string(argument), to_string(given));
    i.detail->list.push_back(held_size(given.kind));
    i.detail->lanes_a.push_back(create(argument, false, false, level, -1));
    env[static_cast<size_t>(body.arguments[k])] = i.detail->lanes_a[k];
  }
  i.n = at(i.in[0]).type.elements();
  i.bodies.resize(1);
  lists_.push_back({&i.bodies[0], level, list, {}});
  const Operation* end = block(function, body, env);
  if (!end || end->operands.size() != op.results.size()) wrong(op, "its region returns something else");
  lists_.pop_back();
  for (size_t k = 0; k < op.results.size(); ++k) {
    const Type& result = function.values[static_cast<size_t>(op.results[k])];
    const int value = of(env, *end, k);
    if (at(value).type.block || at(value).type.kind != result.kind || result.elements() != i.n)
      wrong(op, "a result of {} from {}", to_string(result), to_string(at(value).type));
    i.detail->kinds.push_back(result.kind);
    i.detail->lanes_out.push_back(value);
    i.out.push_back(create(result, false, false, here().level, here().id));
    env[static_cast<size_t>(op.results[k])] = i.out[k];
  }
  i.out.insert(i.out.end(), i.detail->lanes_a.begin(), i.detail->lanes_a.end());
  i.location = location_;
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
  if (lanes_ > 0) return branch_of_lanes(function, op, env);
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

// Inside a reduction each lane takes the result of its own side: both are computed.
void Compiler::branch_of_lanes(const Function& function, const Operation& op, Env& env) {
  const size_t before = here().code->size();
  std::vector<const Operation*> ends;
  for (const Region& side : op.regions) ends.push_back(block(function, side.blocks.front(), env));
  const bool pure = std::all_of(here().code->begin() + static_cast<ptrdiff_t>(before), here().code->end(),
                                [](const Instruction& i) { return i.pure; });
  if (!pure || op.operands.empty()) refuse(op, " inside a reduction");
  for (size_t k = 0; k < op.results.size(); ++k) {
    if (ends.size() != 2 || !ends[0] || !ends[1] || std::min(ends[0]->operands.size(), ends[1]->operands.size()) <= k)
      wrong(op, "a branch yields something else");
    const Operation& select = made_.emplace_back(
        Operation{.name = "arith.select",
                  .operands = {op.operands[0], ends[0]->operands[k], ends[1]->operands[k]},
                  .results = {op.results[k]},
                  .text_line = op.text_line,
                  .location = op.location});
    elementwise_operation(select, env, function.values[static_cast<size_t>(op.results[k])]);
  }
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
  if (!carried.empty() && (!end || end->operands.size() != carried.size())) wrong(op, "its body yields something else");
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

}  // namespace tritonforge::evaluate::ir
