# Reductions of everything to one number: partial results by one kernel, their reduction by a second.

# takes: rows images sequences signals volumes
# gives: end
# choose B: 256 | 512 | 1024

# family: mean_all
# set PARTS: partial_mean_all_kernel
# set TORCH: torch.mean(x)
# set START: 0.0
# set PARTIAL: tl.sum(x, axis=0)
# set RESULT: tl.sum(acc, axis=0) / n

# family: max_all
# set PARTS: partial_max_all_kernel
# set TORCH: torch.max(x)
# set START: -float("inf")
# set PARTIAL: tl.max(x, axis=0)
# set RESULT: tl.max(acc, axis=0)

# family: root_mean_square
# set PARTS: partial_root_mean_square_kernel
# set TORCH: torch.sqrt(torch.mean(x * x))
# set START: 0.0
# set PARTIAL: tl.sum(x * x, axis=0)
# set RESULT: tl.sqrt(tl.sum(acc, axis=0) / n)

# --- forward ---
x = _TORCH_

# --- kernel ---
@triton.jit
def _PARTS_(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=_START_)
    tl.store(partial_ptr + tl.program_id(0), _PARTIAL_)


@triton.jit
def _KERNEL_(partial_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    acc = tl.load(partial_ptr + offsets, mask=offsets < count, other=_START_)
    tl.store(out_ptr, _RESULT_)


def _NAME_(x):
    n = x.numel()
    count = triton.cdiv(n, _B_)
    partial = torch.empty(count, device=x.device, dtype=torch.float32)
    out = torch.empty((), device=x.device, dtype=x.dtype)
    _PARTS_[(count,)](x, partial, n, BLOCK=_B_)
    _KERNEL_[(1,)](partial, out, count, n, BLOCK=triton.next_power_of_2(count))
    return out

# --- call ---
x = _NAME_(x)
