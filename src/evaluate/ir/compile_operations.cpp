// The compile step's operations: each is checked against its operands' types and becomes one instruction, or none.
#include "evaluate/ir/compiler.h"

#include <algorithm>
#include <unordered_map>

#include "evaluate/ir/floats.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {
namespace {

// Inline PTX that is one float32 instruction over its operands in their order ("ex2.approx.ftz.f32 $0, $1;"), as the
// name of the libdevice function that computes the same; "" for all other assembly.
std::string function_of_ptx(const Operation& op) {
  static const std::unordered_map<std::string_view, std::pair<const char*, size_t>> instructions = {
      {"ex2", {"exp2", 1}},   {"lg2", {"log2", 1}},   {"sin", {"sin", 1}},     {"cos", {"cos", 1}},
      {"tanh", {"tanh", 1}},  {"sqrt", {"sqrt", 1}},  {"rsqrt", {"rsqrt", 1}}, {"rcp", {"rcp_rn", 1}},
      {"abs", {"fabs", 1}},   {"add", {"add_rn", 2}}, {"sub", {"sub_rn", 2}},  {"mul", {"mul_rn", 2}},
      {"div", {"div_rn", 2}}, {"max", {"fmax", 2}},   {"min", {"fmin", 2}},    {"fma", {"fma", 3}}};
  const auto text = op.attributes.find("text"), packed = op.attributes.find("packed_element");
  if (text == op.attributes.end() || packed == op.attributes.end() || packed->second.integer != 1) return "";
  std::string written;
  for (const char c : text->second.word) {
    if (c != ' ' && c != '\t' && c != ';') written += c;
  }
  const size_t first = written.find('$'), dot = written.find('.');
  if (first == std::string::npos || dot > first) return "";
  const auto found = instructions.find(std::string_view(written).substr(0, dot));
  if (found == instructions.end() || found->second.second != op.operands.size()) return "";
  std::string wanted = "$0";
  for (size_t k = 1; k <= op.operands.size(); ++k) wanted += fmt::format(",${}", k);
  if (written.substr(first) != wanted) return "";
  std::string_view modifiers = std::string_view(written).substr(dot, first - dot);
  if (!modifiers.ends_with(".f32")) return "";
  modifiers.remove_suffix(4);
  while (!modifiers.empty()) {
    const size_t end = std::min(modifiers.find('.', 1), modifiers.size());
    const std::string_view one = modifiers.substr(0, end);
    if (one != ".approx" && one != ".ftz" && one != ".rn" && one != ".full") return "";
    modifiers.remove_prefix(end);
  }
  return found->second.first;
}

}  // namespace

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
  const bool assembly = op.name == "tt.elementwise_inline_asm";
  if (assembly) word = kind == Kind::kF32 ? function_of_ptx(op) : "";
  Chosen chosen = elementwise(assembly ? "tt.extern_elementwise" : op.name, word, kind, in.size());
  if (!chosen.run && in.size() == 1) {
    const auto rounding = op.attributes.find("rounding");
    chosen = cast(op.name, rounding == op.attributes.end() ? "" : rounding->second.word, kind, type.kind);
  }
  if (!chosen.run) refuse(op, fmt::format("{} on {}", word.empty() ? "" : " (" + word + ")", name_of(kind)));
  if (chosen.result != type.kind) wrong(op, "a result of {}, it gives {}", name_of(type.kind), name_of(chosen.result));
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
    const bool integer_beside = op.name == "tt.extern_elementwise" && k == 1 && kind == Kind::kF32;
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

// A GPU leaves the elements where its threads have them: nobody may count on their order, nor on that of two operations
// being one. That of a reduction over all of them is its own.
int Compiler::reordered(int in, const Type& type) {
  const int in_order = alias(in, type);
  if (at(in).single || type.elements() % 2 != 0) return in_order;
  Instruction i{.run = run::interleave,
                .kind = type.kind,
                .out_kind = type.kind,
                .n = type.elements(),
                .in = {in},
                .name = "tt.reshape"};
  i.detail = std::make_shared<Detail>();
  i.detail->list = {1 - reorders_++ % 2};
  const int out = emit(std::move(i), {{type, false}}, "").front();
  in_order_[out] = in_order;
  return out;
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
    if (at(in).lanes && type.held() != 1) refuse(op, " inside a reduction");
    const int out = alias(in, type);
    values_[static_cast<size_t>(out)].single = !at(in).lanes;
    set(out);
  } else if (n == "tt.reshape" || n == "tt.expand_dims" || n == "tt.broadcast") {
    const int in = of(env, op, 0);
    same_kind(in);
    const Type& from = at(in).type;
    if (n != "tt.broadcast" || from.shape == type.shape || at(in).single) {
      if (n != "tt.broadcast" && from.elements() != type.elements())
        wrong(op, "{} from {}", to_string(type), to_string(from));
      set(std::ranges::find(op.words, "allow_reorder") == op.words.end() ? alias(in, type) : reordered(in, type));
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
    // tt.cat may reorder, and joins what each thread has of both: nobody may count on one after the other.
    Instruction i{.run = run::join,
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
    const std::string key = fmt::format("{} {}", n, i.detail->flag);
    set(emit(std::move(i), {{type, false}}, key).front());
  } else {
    return false;
  }
  return true;
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
  if (n == "tt.map_elementwise") return map_elementwise(function, op, env);
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
  if (n == "tt.store" || n == "tt.descriptor_store" || n == "tt.descriptor_reduce") {
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
    const std::string key = fmt::format("num_programs {}", i.detail->axis);
    return set(emit(std::move(i), {{type, false}}, key).front());
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

}  // namespace tritonforge::evaluate::ir
