# Rows brought to a common scale, each by one program that holds it whole.

# takes: rows sequences
# choose W: 2 | 4 | 8
# choose R: rows | n_rows
# epilogue: 0..2

# family: rms_norm_weighted
# set INIT: self.rms_weight = nn.Parameter(torch.rand(_IN_) + 0.5)
# set TORCH: F.rms_norm(x, (x.shape[-1],), self.rms_weight, eps=1e-5)
# set PARAMETER: weight_ptr
# set RESULT: x / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + 1e-5) * tl.load(weight_ptr + cols, mask=mask, other=0.0)
# set TAKEN: x, weight
# set GIVEN: x, self.rms_weight
# set PASSED: weight

# family: min_max_scale
# set INIT: self.floor = 1e-3
# set TORCH: (x - x.amin(-1, keepdim=True)) / (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True) + self.floor)
# set PARAMETER: floor
# set RESULT: (x - tl.min(tl.where(mask, x, float("inf")), axis=0)) / (tl.max(tl.where(mask, x, -float("inf")), axis=0) - tl.min(tl.where(mask, x, float("inf")), axis=0) + floor)
# set TAKEN: x, floor
# set GIVEN: x, self.floor
# set PASSED: floor
# bounds: 0..1

# family: mean_centre
# set INIT: self.strength = _STRENGTH_
# choose STRENGTH: 0.5 | 0.9 | 1.5
# set TORCH: x - self.strength * x.mean(-1, keepdim=True)
# set PARAMETER: strength
# set RESULT: x - strength * tl.sum(x, axis=0) / n_cols
# set TAKEN: x, strength
# set GIVEN: x, self.strength
# set PASSED: strength

# --- init ---
_INIT_

# --- forward ---
x = _TORCH_
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, _PARAMETER_, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    x = _RESULT_
    x = _EPILOGUE_(x)
    tl.store(out_ptr + row * n_cols + cols, x, mask=mask)


def _NAME_(_TAKEN_):
    n_cols = x.shape[-1]
    _R_ = x.numel() // n_cols
    out = torch.empty_like(x)
    _KERNEL_[(_R_,)](x, _PASSED_, out, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=_W_)
    return out

# --- call ---
x = _NAME_(_GIVEN_)
