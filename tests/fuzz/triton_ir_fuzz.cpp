// libs: tf_evaluate_ir
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "evaluate/ir/machine.h"
#include "evaluate/ir/stores.h"

// Any text either is refused with an error of ours, or compiles to a program that runs within its buffers.
int fuzz_one(const uint8_t* data, size_t size) {
  using namespace tritonforge;
  using namespace tritonforge::evaluate;
  const std::string text(reinterpret_cast<const char*>(data), size);
  ir::without_locations(text);
  try {
    const ir::Module module = ir::parse(
        text, {.bytes = 1 << 16, .operations = 500, .depth = 16, .block_elements = 1 << 10, .rank = 6});
    if (ir::most_stored(module).value_or(0) < 0) return 1;
    const ir::Program program = ir::compile(module);
    std::vector<std::vector<std::byte>> storage(program.parameters.size(), std::vector<std::byte>(4096));
    ir::Memory memory;
    std::vector<ir::Argument> arguments;
    for (size_t k = 0; k < program.parameters.size(); ++k) {
      if (program.parameters[k].kind == ir::Kind::kPointer) {
        const int buffer = memory.add("b", storage[k].data(), 4096, 4, k % 2 == 0);
        arguments.push_back({.form = ir::Argument::Form::kBuffer, .buffer = buffer});
      } else if (ir::is_float(program.parameters[k].kind)) {
        arguments.push_back({.form = ir::Argument::Form::kFloat, .real = 1.5});
      } else {
        arguments.push_back({.integer = 3});
      }
    }
    ir::launch(program, memory, arguments, {.grid = {2, 1, 1}, .seed = size, .work_limit = 1 << 16});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported) return 1;
  } catch (const ir::Fault&) {}
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"(module {
  tt.func public @add(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<bf16>, %n: i32)
      attributes {noinline = false} {
    %pid = tt.get_program_id x : i32
    %c = arith.constant 64 : i32
    %0 = arith.muli %pid, %c : i32
    %1 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %2 = tt.splat %0 : i32 -> tensor<64xi32>
    %3 = arith.addi %2, %1 : tensor<64xi32>
    %4 = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %5 = tt.addptr %4, %3 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %6 = arith.constant dense<0xFF800000> : tensor<64xf32>
    %7 = arith.cmpi slt, %3, %2 : tensor<64xi32>
    %8 = tt.load %5, %7, %6 cacheModifier = cg : tensor<64x!tt.ptr<f32>>
    %9 = "tt.reduce"(%8) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (tensor<64xf32>) -> f32
    %10 = tt.expand_dims %8 {axis = 1 : i32} : tensor<64xf32> -> tensor<64x1xf32>
    %11 = tt.reshape %8 : tensor<64xf32> -> tensor<8x8xf32>
    %12 = tt.trans %11 {order = array<i32: 1, 0>} : tensor<8x8xf32> -> tensor<8x8xf32>
    %13 = tt.dot %11, %12, %11, inputPrecision = tf32 : tensor<8x8xf32> * tensor<8x8xf32> -> tensor<8x8xf32>
    %14 = tt.reshape %13 : tensor<8x8xf32> -> tensor<64xf32>
    tt.store %5, %14, %7 : tensor<64x!tt.ptr<f32>>
    %15 = arith.truncf %9 : f32 to bf16
    tt.store %y, %15 : !tt.ptr<bf16>
    tt.return
  }
}
)",
      R"(#loc = loc("k.py":3:0)
module {
  tt.func public @loops(%o: !tt.ptr<i32> loc("o"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %c0 = arith.constant 0 : i32 loc(#loc)
    %c1 = arith.constant 1 : i32
    %t = arith.constant true
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0, %b = %c1) -> (i32, i32)  : i32 {
      %q = arith.cmpi slt, %i, %c1 : i32
      %z = scf.if %q -> (i32) {
        scf.yield %a : i32
      } else {
        %m = arith.muli %b, %n : i32
        scf.yield %m : i32
      }
      scf.yield %b, %z : i32, i32
    } {tt.num_stages = 3 : i32}
    %w = scf.while (%v = %n) : (i32) -> (i32) {
      %g = arith.cmpi sgt, %v, %c0 : i32
      scf.condition(%g) %v : i32
    } do {
    ^bb0(%v: i32):
      %u = arith.subi %v, %c1 : i32
      scf.yield %u : i32
    }
    %old = tt.atomic_rmw add, acq_rel, gpu, %o, %r#1, %t : (!tt.ptr<i32>, i32, i1) -> i32
    %f = tt.call @twice(%old) : (i32) -> i32
    cf.cond_br %t, ^bb1, ^bb2(%f : i32)
  ^bb1:  // pred: ^bb0
    tt.store %o, %w : !tt.ptr<i32> loc(#loc)
    tt.return
  ^bb2(%x: i32):  // pred: ^bb0
    tt.store %o, %x : !tt.ptr<i32>
    tt.return
  }
  tt.func private @twice(%a: i32) -> i32 attributes {noinline = true} {
    %s = arith.addi %a, %a : i32
    tt.return %s : i32
  }
}
)",
      R"(module {
  tt.func public @blocks(%x: !tt.ptr<f16>, %n: i64) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i64
    %p = tt.make_tensor_ptr %x, [%n, %n], [%n, %c1], [%c0, %c0] {order = array<i32: 1, 0>} : <tensor<4x4xf16>>
    %a = tt.load %p {boundaryCheck = array<i32: 0, 1>, padding = 2 : i32} : !tt.ptr<tensor<4x4xf16>>
    %q = tt.advance %p, [%c0, %c0] : <tensor<4x4xf16>>
    %s:2 = "tt.scan"(%a, %a) <{axis = 1 : i32, reverse = true}> ({
    ^bb0(%b: f16, %c: f16, %d: f16, %e: f16):
      %g = arith.maxnumf %b, %d : f16
      tt.scan.return %g, %c : f16, f16
    }) : (tensor<4x4xf16>, tensor<4x4xf16>) -> (tensor<4x4xf16>, tensor<4x4xf16>)
    %left, %right = tt.split %h : tensor<4x2xf16> -> tensor<4xf16>
    tt.store %q, %s#0 {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<4x4xf16>>
    tt.return
  }
}
)",
      R"(module {
  tt.func public @mapped(%x: !tt.ptr<i32>, %n: i64) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i64
    %d = tt.make_tensor_descriptor %x, [%n, %n], [%n, %c1] : <i32>, <tensor<4x4xsi32>>
    %a = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<tensor<4x4xsi32>> -> tensor<4x4xi32>
    %m:2 = "tt.map_elementwise"(%a, %a) <{pack = 1 : i32}> ({
    ^bb0(%b: i32, %c: i32):
      %r:2 = tt.call @larger(%b, %c) : (i32, i32) -> (i32, i32)
      tt.map_elementwise.return %r#0, %r#1 : i32, i32
    }) : (tensor<4x4xi32>, tensor<4x4xi32>) -> (tensor<4x4xi32>, tensor<4x4xi32>)
    tt.descriptor_reduce max, %d[%c0, %c0], %m#1 : !tt.tensordesc<tensor<4x4xsi32>>, tensor<4x4xi32>
    tt.return
  }
  tt.func private @larger(%a: i32, %b: i32) -> (i32, i32) attributes {noinline = true} {
    %g = arith.cmpi sgt, %a, %b : i32
    cf.cond_br %g, ^bb1, ^bb2
  ^bb1:  // pred: ^bb0
    tt.return %a, %b : i32, i32
  ^bb2:  // pred: ^bb0
    %s = arith.addi %a, %b : i32
    tt.return %b, %s : i32, i32
  }
}
)"};
}
