"""Reductions and scans over whole arrays, also with a combine function of the kernel's own."""

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as upstream
from triton.runtime.interpreter import TensorHandle

from tritonforge_worker.interpreter.numbers import np_dtype


class Reduction(upstream.ReduceOps):
    def apply_impl(self, input):
        standard = tl.standard
        if self.combine_fn == standard._argmax_combine_tie_break_fast:
            return self.min_max(input[0], val_reduce_op=np.max, idx_reduce_op=np.argmax)
        if self.combine_fn == standard._argmin_combine_tie_break_fast:
            return self.min_max(input[0], val_reduce_op=np.min, idx_reduce_op=np.argmin)
        return super().apply_impl(input)

    def generic_reduce(self, input):
        """Combines neighbours level by level: log2(n) calls on whole arrays. Relies on associativity, as GPUs do."""
        whole = self.axis is None
        arrays, dtypes = [arg.handle.data for arg in input], [arg.dtype for arg in input]
        shape = arrays[0].shape
        arrays = [a.reshape(-1) if whole else np.moveaxis(a, self.axis, 0) for a in arrays]
        while arrays[0].shape[0] > 1:
            half = arrays[0].shape[0] // 2
            even, odd = [a[0 : 2 * half : 2] for a in arrays], [a[1 : 2 * half : 2] for a in arrays]
            merged = combine(self.combine_fn, even, odd, dtypes)
            arrays = [np.concatenate([m, a[2 * half :]]) for m, a in zip(merged, arrays)]
        out = []
        for array, dtype in zip(arrays, dtypes):
            value = array[0]
            if self.keep_dims:
                value = np.reshape(value, (1,) * len(shape)) if whole else np.expand_dims(value, self.axis)
            elif whole or not value.shape:
                value = value.item()
            out.append(self.to_tensor(value, dtype))
        return out


class Scan(upstream.ScanOps):
    def generic_scan(self, input):
        dtypes = [arg.dtype for arg in input]
        arrays = [np.moveaxis(arg.handle.data, self.axis, 0) for arg in input]
        step = 1
        while step < arrays[0].shape[0]:  # Hillis-Steele; whole blocks, whose sizes stay powers of two
            merged = combine(self.combine_fn, [np.roll(a, step, axis=0) for a in arrays], arrays, dtypes)
            arrays = [np.concatenate([a[:step], m[step:]]) for a, m in zip(arrays, merged)]
            step *= 2
        return [self.to_tensor(np.moveaxis(a, 0, self.axis), dtype) for a, dtype in zip(arrays, dtypes)]


def tensor_of(array, dtype):
    if array.ndim == 0:
        array = array.reshape(1)
    return tl.tensor(TensorHandle(array, dtype.scalar), tl.block_type(dtype.scalar, list(array.shape)))


def combine(function, left, right, dtypes):
    out = function(*[tensor_of(a, d) for a, d in zip(left, dtypes)], *[tensor_of(a, d) for a, d in zip(right, dtypes)])
    out = out if isinstance(out, (tuple, tl.tuple)) else (out,)
    merged = []
    for value, array, dtype in zip(out, left, dtypes):
        data = value.handle.data if isinstance(value, tl.tensor) else np.asarray(value)
        merged.append(np.broadcast_to(data, array.shape).astype(np_dtype(dtype)))
    return merged
