// The compile step's second pass: what is not used goes, every value gets a place.
#include "evaluate/ir/compiler.h"

#include <algorithm>
#include <set>

#include "evaluate/ir/floats.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {

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

namespace {

// Programs are ordered by atomics where the kernel looks at what an atomic found; then every atomic takes part.
bool looks_at_atomics(const Code& code, const std::unordered_set<int>& used, const auto& root) {
  return std::any_of(code.begin(), code.end(), [&](const Instruction& i) {
    return i.run == run::atomic_cas || (i.run == run::atomic_rmw && used.contains(root(i.out[0]))) ||
           std::any_of(i.bodies.begin(), i.bodies.end(),
                       [&](const Code& body) { return looks_at_atomics(body, used, root); });
  });
}

void let_atomics_order_nothing(Code& code) {
  for (Instruction& i : code) {
    if (i.run == run::atomic_rmw) i.detail->acquires = i.detail->releases = false;
    for (Code& body : i.bodies) let_atomics_order_nothing(body);
  }
}

}  // namespace

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
  program_.waits = looks_at_atomics(program_.code, used, [this](int value) { return root(value); });
  if (!program_.waits) let_atomics_order_nothing(program_.code);
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

Program compile(const Module& module) { return Compiler(module).run(); }

}  // namespace tritonforge::evaluate::ir
