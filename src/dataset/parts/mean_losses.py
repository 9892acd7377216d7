# Losses between two tensors of one shape, as one number: a partial sum a block, and a second kernel that adds them up.

# takes: rows
# gives: end
# choose B: 256 | 512 | 1024

# family: mse_loss_mean
# set PARTS: squared_error_parts_kernel
# set OTHER: torch.randn(batch_size, _IN_)
# set TORCH: F.mse_loss(x, target)
# set LOSS: (x - y) * (x - y)

# family: huber_loss_mean
# set PARTS: huber_parts_kernel
# set OTHER: torch.randn(batch_size, _IN_)
# set TORCH: F.smooth_l1_loss(x, target)
# set LOSS: tl.where(tl.abs(x - y) < 1, 0.5 * (x - y) * (x - y), tl.abs(x - y) - 0.5)

# family: hinge_loss_mean
# set PARTS: hinge_parts_kernel
# set OTHER: torch.randint(0, 2, (batch_size, _IN_)).float() * 2 - 1
# set TORCH: torch.mean(torch.clamp(1 - x * target, min=0))
# set LOSS: tl.maximum(1 - x * y, 0.0)

# family: bce_loss_mean
# set PARTS: bce_parts_kernel
# set OTHER: torch.rand(batch_size, _IN_)
# set TORCH: F.binary_cross_entropy_with_logits(x, target)
# set LOSS: tl.maximum(x, 0.0) - x * y + tl.log(1 + tl.exp(-tl.abs(x)))

# --- inputs ---
target = _OTHER_

# --- forward ---
x = _TORCH_

# --- kernel ---
@triton.jit
def _PARTS_(x_ptr, y_ptr, parts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(parts_ptr + tl.program_id(0), tl.sum(tl.where(mask, _LOSS_, 0.0), axis=0))


@triton.jit
def _KERNEL_(parts_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    parts = tl.load(parts_ptr + offsets, mask=offsets < count, other=0.0)
    tl.store(out_ptr, tl.sum(parts, axis=0) / n)


def _NAME_(x, target):
    n = x.numel()
    count = triton.cdiv(n, _B_)
    parts = torch.empty(count, device=x.device, dtype=torch.float32)
    out = torch.empty((), device=x.device, dtype=x.dtype)
    _PARTS_[(count,)](x, target, parts, n, BLOCK=_B_)
    _KERNEL_[(1,)](parts, out, count, n, BLOCK=triton.next_power_of_2(count))
    return out

# --- call ---
x = _NAME_(x, target)
