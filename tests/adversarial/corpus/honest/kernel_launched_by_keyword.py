# Every argument by keyword, grid as a tuple of one, options num_warps and num_stages.
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, w):
        return nn.functional.hardswish(x) * w


def get_inputs():
    return [torch.randn(12, 65), torch.randn(65)]

# ---- candidate ----
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def hardswish_scale(out_ptr, x_ptr, w_ptr, rows: tl.int32, cols: tl.int32, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    tl.multiple_of(offs, 16)
    mask = offs < cols
    x = tl.load(x_ptr + row * cols + offs, mask=mask, eviction_policy="evict_first")
    w = tl.load(w_ptr + offs, mask=mask, cache_modifier=".ca")
    six = tl.clamp(x + 3.0, 0.0, 6.0)
    tl.store(out_ptr + row * cols + offs, x * six / 6.0 * w, mask=mask)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x, w):
        with torch.cuda.device(x.device):
            out = torch.empty_like(x, memory_format=torch.contiguous_format)
            hardswish_scale[(x.shape[0],)](out_ptr=out, x_ptr=x, w_ptr=w, rows=x.shape[0], cols=x.shape[1],
                                           BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=2, num_stages=1)
        torch.cuda.synchronize()
        return out
