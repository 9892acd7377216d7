"""One launch: a JITFunction's arguments over CPU tensors, and its programs one after the other."""

import numpy as np
import torch
import triton
import triton.language as tl
import triton.runtime.interpreter as upstream
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import TensorHandle
from triton.runtime.jit import mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from tritonforge_worker.interpreter.builder import Builder
from tritonforge_worker.interpreter.patches import Patches, mend_upstream
from tritonforge_worker.interpreter.rewrite import Functions


class Interpreter:
    """Everything that interpretation keeps. One a process, since it changes upstream's module for good."""

    def __init__(self):
        self.builder = Builder()
        self.semantic = TritonSemantic(self.builder)
        self.functions = Functions(self.semantic)
        mend_upstream()
        self.patches = Patches(self.builder, self.functions)
        self.functions.replacements = self.patches.replacements()

    def execute(self, kernel, bound, constexprs, grid):
        """Runs every program of `grid` (three sizes) of a JITFunction over CPU tensors."""
        self.functions.forget()
        ranges = []
        with torch._C.DisableTorchFunction(), self.patches, np.errstate(all="ignore"):
            arguments = {
                name: value if name in constexprs else self.to_argument(value, name, ranges)
                for name, value in bound.items()
            }
            self.builder.ranges, self.builder.checked = ranges, True
            function = self.functions.interpreted(kernel.fn)
            self.builder.set_grid_dim(*grid)
            for z in range(grid[2]):
                for y in range(grid[1]):
                    for x in range(grid[0]):
                        self.builder.grid_idx = (x, y, z)
                        function(**arguments)

    def to_argument(self, value, name, ranges):
        """What the kernel sees of an argument. `ranges` collects the memory that the launch may touch."""

        def again(part):
            return self.to_argument(part, name, ranges)

        if isinstance(value, torch.Tensor):
            value = value.detach()
            storage = value.untyped_storage()
            ranges.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes(), name, value.element_size()))
            dtype = tl.str_to_ty(mangle_type(value), None)
            return tl.tensor(TensorHandle(np.array([value.data_ptr()], dtype=np.uint64), dtype), dtype)
        if isinstance(value, triton.runtime.jit.TensorWrapper):
            dtype = tl.str_to_ty(mangle_type(value), None)
            return tl.tensor(TensorHandle(again(value.base).handle.data, dtype), dtype)
        if isinstance(value, bool):
            return tl.tensor(TensorHandle(np.array([value]), tl.int1), tl.int1)
        if isinstance(value, float):
            return tl.tensor(TensorHandle(np.array([value], dtype=np.float32), tl.float32), tl.float32)
        if isinstance(value, tuple):
            return upstream._tuple_create(value, [again(item) for item in value])
        if isinstance(value, TensorDescriptor):
            strides = [again(stride) for stride in value.strides]
            strides[-1] = tl.constexpr(1)
            return self.semantic.make_tensor_descriptor(
                base=again(value.base),
                shape=[again(size) for size in value.shape],
                strides=strides,
                block_shape=[tl.constexpr(b) for b in value.block_shape],
                padding_option=value.padding,
            )
        return upstream._implicit_cvt(value) if isinstance(value, int) else value
