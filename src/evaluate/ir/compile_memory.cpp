// The compile step's operations on memory: loads, stores and atomics by pointers, block pointers and descriptors.
#include <algorithm>
#include <set>

#include "evaluate/ir/compiler.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {
namespace {

// Of an atomic: what it orders between programs; flag: its scope is one block, which reaches no others.
std::shared_ptr<Detail> ordering(const Operation& op) {
  const auto said = [&](const char* word) { return std::ranges::find(op.words, word) != op.words.end(); };
  auto detail = std::make_shared<Detail>();
  detail->flag = said("cta");
  detail->acquires = !detail->flag && (said("acq_rel") || said("acquire"));
  detail->releases = !detail->flag && (said("acq_rel") || said("release"));
  return detail;
}

// How an atomic changes what is there, as run::atomic_rmw calls it; "": not on this type.
std::string combining(const Operation& op, Kind kind) {
  static const std::set<std::string> integers = {"add", "and", "or", "xor", "max", "min", "umax", "umin", "exch"},
                                     floats = {"fadd", "max", "min", "exch"};
  if (op.words.empty() || kind == Kind::kI1 || kind == Kind::kPointer) return "";
  std::string word = op.words[0];
  if (op.name == "tt.descriptor_reduce" && is_float(kind) && word == "add") word = "fadd";
  return (is_float(kind) ? floats : integers).contains(word) ? word : "";
}

}  // namespace

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
  const auto load_block = [&](bool descriptor) {
    Instruction i{.run = run::load_block,
                  .kind = type.kind,
                  .out_kind = type.kind,
                  .n = type.elements(),
                  .in = {of(env, op, 0)},
                  .pure = false,
                  .name = op.name.c_str()};
    block_pointer(i, i.in[0], descriptor);
    return i;
  };
  const auto store_block = [&](int value, bool descriptor, Instruction::Run run = run::store_block) {
    const int tuple = of(env, op, 0);
    const Type own = at(tuple).type;
    if (own.kind == Kind::kTuple) value_fits(value, {.kind = own.pointee, .block = true, .shape = own.shape});
    Instruction i{.run = run,
                  .kind = own.pointee,
                  .n = at(value).type.elements(),
                  .in = {tuple, full(value)},
                  .pure = false,
                  .name = op.name.c_str()};
    block_pointer(i, tuple, descriptor);
    if (run == run::reduce_block && (i.detail->text = combining(op, own.pointee)).empty())
      refuse(op, fmt::format(" ({} on {})", fmt::join(op.words, " "), name_of(own.pointee)));
    emit(std::move(i), {}, "");
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
    set(emit(load_block(false), {{type, false}}, "").front());
  } else if (n == "tt.store" && at(of(env, op, 0)).type.kind == Kind::kTuple) {
    store_block(of(env, op, 1), false);
  } else if (n == "tt.descriptor_load") {
    Instruction i = load_block(true);
    const Type own = at(i.in[0]).type;
    if (type.kind != own.pointee || type.elements() != Type{.block = true, .shape = own.shape}.elements())
      wrong(op, "{} from a block of {}", to_string(type), name_of(own.pointee));
    set(emit(std::move(i), {{type, false}}, "").front());
  } else if (n == "tt.descriptor_store") {
    store_block(of(env, op, op.operands.size() - 1), true);
  } else if (n == "tt.descriptor_reduce") {
    store_block(of(env, op, op.operands.size() - 1), true, run::reduce_block);
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
    const std::string how = combining(op, as.kind);
    if (how.empty()) refuse(op, fmt::format(" ({} on {})", fmt::join(op.words, " "), name_of(as.kind)));
    Instruction i{.run = run::atomic_rmw,
                  .kind = as.kind,
                  .out_kind = as.kind,
                  .n = as.elements(),
                  .in = {pointer, value, mask},
                  .pure = false,
                  .name = op.name.c_str()};
    i.detail = ordering(op);
    i.detail->text = how;
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
    i.detail = ordering(op);
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

}  // namespace tritonforge::evaluate::ir
