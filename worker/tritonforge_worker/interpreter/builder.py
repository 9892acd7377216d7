"""The operations of the language over numpy arrays: memory, casts, arithmetic. One program runs at a time."""

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as upstream
from triton.runtime.interpreter import TensorHandle

from tritonforge_worker import libdevice
from tritonforge_worker.interpreter.numbers import decode, encode, np_dtype, rounded, storage_dtype, wide


class OutOfBounds(IndexError):
    pass


class Builder(upstream.InterpreterBuilder):
    def __init__(self):
        super().__init__()
        self.options = upstream.InterpreterOptions(sanitize_overflow=False)
        self.ranges, self.checked = [], False
        self.codegen_fns["convert_custom_types"] = lambda value, dtype, mode, _semantic: tl.tensor(
            self.create_fp_to_fp(value.handle, dtype, mode), dtype
        )

    # memory
    def check(self, addresses, mask, dtype, action):
        if not self.checked:
            return
        mask = np.broadcast_to(mask, addresses.shape)
        if not mask.all():
            addresses = addresses[mask]
            if addresses.size == 0:
                return
        low, high = int(addresses.min()), int(addresses.max())
        size = max(1, dtype.primitive_bitwidth // 8) if not isinstance(dtype, tl.pointer_type) else 8
        for start, end, _, _ in self.ranges:
            if (start <= low < end or low == start == end) and high + size <= end:
                return
        flat = addresses.reshape(-1).astype(np.int64)
        inside = np.zeros(flat.shape, dtype=bool)
        for start, end, _, _ in self.ranges:
            inside |= (flat >= start) & (flat + size <= end)
        if inside.all():
            return
        bad = int(flat[~inside][0])
        start, end, name, item = min(
            self.ranges, key=lambda r: min(abs(bad - r[0]), abs(bad - r[1])), default=(0, 0, "?", 1)
        )
        raise OutOfBounds(
            f"out-of-bounds {action}: element {(bad - start) // item} of argument '{name}', which has "
            f"{(end - start) // item} elements (program {self.grid_idx}); is a mask missing?"
        )

    def create_masked_load(self, ptrs, mask, other, cache_modifier, eviction_policy, is_volatile):
        dtype = ptrs.get_element_ty()
        self.check(ptrs.data, mask.data, dtype, "load")
        storage = storage_dtype(dtype)
        if other is None:
            filler = np.zeros(ptrs.data.shape, dtype=storage)
        else:
            filler = encode(other.data, dtype) if wide(dtype) else other.data
        out = upstream._interpreter.load(ptrs.data, mask.data, filler, storage)
        return TensorHandle(decode(out, dtype) if wide(dtype) else out, dtype)

    def create_masked_store(self, ptrs, value, mask, cache_modifier, eviction_policy):
        dtype = ptrs.get_element_ty()
        self.check(ptrs.data, mask.data, dtype, "store")
        data = encode(value.data, dtype) if wide(dtype) else value.data
        return upstream._interpreter.store(ptrs.data, data, mask.data)

    def create_atomic_rmw(self, op, ptr, val, mask, sem, scope):
        dtype = ptr.get_element_ty()
        self.check(ptr.data, mask.data, dtype, "atomic")
        if not wide(dtype) and dtype != tl.float16:
            return super().create_atomic_rmw(op, ptr, val, mask, sem, scope)
        # Upstream has no 16-bit float atomics: one address after the other, as hardware serialises them.
        combine = {"FADD": np.add, "MAX": np.maximum, "MIN": np.minimum}.get(str(op).rsplit(".", 1)[-1])
        if combine is None:
            raise NotImplementedError(f"atomic {op} on {dtype} in interpret mode")
        old = np.zeros(ptr.data.shape, dtype=np_dtype(dtype))
        one = np.ones(1, dtype=bool)
        for index in np.ndindex(ptr.data.shape):
            if mask.data[index]:
                address = TensorHandle(ptr.data[index].reshape(1), ptr.dtype)
                was = self.create_masked_load(address, TensorHandle(one, tl.int1), None, None, None, False).data
                old[index] = was[0]
                now = rounded(combine(was, val.data[index]).astype(np_dtype(dtype)), dtype)
                self.create_masked_store(address, TensorHandle(now, dtype), TensorHandle(one, tl.int1), None, None)
        return TensorHandle(old, val.dtype.scalar)

    def create_atomic_cas(self, ptr, cmp, val, sem, scope):
        self.check(ptr.data, np.ones(ptr.data.shape, dtype=bool), ptr.get_element_ty(), "atomic")
        return super().create_atomic_cas(ptr, cmp, val, sem, scope)

    def create_int_to_ptr(self, src, dst_type):
        self.checked = False  # addresses that came from integers belong to tensors that the launch does not name
        return TensorHandle(src.data.astype(np.uint64), dst_type.scalar)

    def create_ptr_to_int(self, src, dst_type):
        return TensorHandle(src.data.astype(np_dtype(dst_type)), dst_type.scalar)

    def get_bf16(self, value):
        return TensorHandle(rounded(np.array([value], dtype=np.float32), tl.bfloat16), tl.bfloat16)

    # casts
    def cast_impl(self, src, dst_type):
        data, target = src.data, dst_type.scalar
        if np.issubdtype(data.dtype, np.floating) and np.issubdtype(np_dtype(target), np.integer):
            info = np.iinfo(np_dtype(target))  # hardware saturates
            data = np.clip(np.nan_to_num(np.trunc(data.astype(np.float64)), nan=0.0), float(info.min), float(info.max))
            if info.bits == 64:
                data = np.where(data >= float(info.max), info.max, data.astype(np_dtype(target)))
        return TensorHandle(rounded(data.astype(np_dtype(target)), target), target)

    create_si_to_fp = create_ui_to_fp = create_fp_to_si = create_fp_to_ui = cast_impl
    create_fp_ext = create_fp_trunc = cast_impl

    def create_int_cast(self, src, dst_type, is_signed):
        return TensorHandle(src.data.astype(np_dtype(dst_type)), dst_type.scalar)

    def create_fp_to_fp(self, src, dst_type, rounding_mode):
        return self.cast_impl(src, dst_type)

    def create_bitcast(self, src, dst_type):
        source, target = src.dtype.scalar, dst_type.scalar
        if isinstance(source, tl.pointer_type) and isinstance(target, tl.pointer_type):
            return TensorHandle(src.data, target)
        data = encode(src.data, source) if wide(source) else src.data
        data = np.ascontiguousarray(data).view(storage_dtype(target))
        return TensorHandle(decode(data, target) if wide(target) else data, target)

    # arithmetic
    def binary_op(self, lhs, rhs, op):
        dtype = lhs.dtype.scalar
        out = op(lhs.data, rhs.data)
        if out.dtype != bool and not isinstance(dtype, tl.pointer_type):
            out = rounded(out.astype(np_dtype(dtype), copy=False), dtype)
        return TensorHandle(out, dtype)

    def ternary_op(self, lhs, rhs, other, op):
        dtype = other.dtype.scalar
        out = op(lhs.data, rhs.data, other.data)
        if not isinstance(dtype, tl.pointer_type):
            out = rounded(out.astype(np_dtype(dtype), copy=False), dtype)
        return TensorHandle(out, dtype)

    def unary_op(self, arg, op):
        dtype = arg.dtype.scalar
        return TensorHandle(rounded(op(arg.data).astype(np_dtype(dtype), copy=False), dtype), dtype)

    def create_select(self, cond, lhs, rhs):
        return self.ternary_op(cond, lhs, rhs, np.where)

    def create_fabs(self, arg):
        return self.unary_op(arg, np.abs)

    def create_rsqrt(self, arg):
        return self.unary_op(arg, lambda x: 1 / np.sqrt(x))

    def create_erf(self, arg):
        return self.unary_op(arg, libdevice.FUNCTIONS["erf"])

    def create_fma(self, x, y, z):
        wide = np.float64 if z.data.dtype != np.float64 else np.longdouble
        out = (x.data.astype(wide) * y.data.astype(wide) + z.data.astype(wide)).astype(z.data.dtype)
        return TensorHandle(rounded(out, z.dtype.scalar), z.dtype.scalar)

    def create_ashr(self, lhs, rhs):
        signed = upstream._get_signed_np_dtype
        return TensorHandle(
            np.right_shift(lhs.data.astype(signed(lhs.data.dtype)), rhs.data.astype(signed(rhs.data.dtype))),
            lhs.dtype.scalar,
        )

    def create_idiv(self, lhs, rhs):
        zero = rhs.data == 0
        divisor = np.where(zero, np.ones_like(rhs.data), rhs.data)
        out = (lhs.data - np.fmod(lhs.data, divisor)) // divisor
        return TensorHandle(
            np.where(zero, np.full_like(out, -1 if out.dtype.kind == "i" else 0), out), lhs.dtype.scalar
        )

    def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
        if a.data.dtype.kind == "f":
            wide = np.float64 if d.data.dtype == np.float64 else np.float32
            out = np.matmul(a.data.astype(wide, copy=False), b.data.astype(wide, copy=False)) + d.data.astype(
                wide, copy=False
            )
        else:
            out = np.matmul(a.data.astype(np.int64), b.data.astype(np.int64)) + d.data
        dtype = d.dtype.scalar
        return TensorHandle(rounded(out.astype(np_dtype(dtype), copy=False), dtype), dtype)

    def create_extern_elementwise(self, lib_name, lib_path, symbol, args, ret_type, is_pure):
        function = libdevice.find(symbol)
        if function is None:
            raise NotImplementedError(f"{symbol} is not known to interpret mode")
        out = np.asarray(function(*[arg.data for arg in args]))
        dtype = ret_type.scalar
        return TensorHandle(rounded(out.astype(np_dtype(dtype)), dtype), dtype)

    def create_inline_asm(self, *args, **kwargs):
        raise NotImplementedError("inline assembly cannot be run in interpret mode")

    def create_print(self, prefix, hex, values, is_signed):
        pass  # a child's output goes nowhere
