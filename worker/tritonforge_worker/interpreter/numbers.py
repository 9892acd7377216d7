"""How numpy holds each of Triton's types, and the rounding that its own types lack."""

import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as upstream

FP8 = {
    tl.float8e5: torch.float8_e5m2,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e4b8: torch.float8_e4m3fnuz,
    tl.float8e5b16: torch.float8_e5m2fnuz,
}
WIDE = {tl.bfloat16: np.dtype(np.uint16), **{dtype: np.dtype(np.uint8) for dtype in FP8}}  # held as float32
_wide_names = {dtype.name for dtype in WIDE}
storage_dtype = upstream._get_np_dtype  # as upstream has it: bfloat16 and fp8 as their bits


def scalar_of(dtype):
    return dtype.element_ty if isinstance(dtype, tl.block_type) else dtype


def wide(dtype):
    return not isinstance(dtype, tl.pointer_type) and getattr(dtype, "name", "") in _wide_names


def np_dtype(dtype):
    return np.dtype(np.float32) if wide(scalar_of(dtype)) else storage_dtype(dtype)


def encode(data, dtype):
    """float32 -> the type's bits, round to nearest even."""
    data = np.ascontiguousarray(data, dtype=np.float32)
    if dtype == tl.bfloat16:
        bits = data.view(np.uint32)
        rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16
        return np.where(np.isnan(data), np.uint32(0x7FC0), rounded).astype(np.uint16)
    return torch.from_numpy(data.copy()).to(FP8[dtype]).view(torch.uint8).numpy()


def decode(bits, dtype):
    if dtype == tl.bfloat16:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return torch.from_numpy(np.ascontiguousarray(bits)).view(FP8[dtype]).float().numpy()


def rounded(data, dtype):
    """`data` as this type holds it; what is no float or needs no rounding is returned as it is."""
    if wide(dtype) and np.issubdtype(data.dtype, np.floating):
        return decode(encode(data, dtype), dtype)
    return data
