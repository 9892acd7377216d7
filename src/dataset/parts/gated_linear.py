# Gated linear units: two products in one walk along the inner axis, one of them the gate of the other.

# takes: rows sequences
# choose BM: 16 | 32
# choose BN: 16 | 32
# choose OUT: 32 | 48 | 64 | 96

# family: swiglu
# set GATE: swiglu_gate
# set UP: swiglu_up
# set TORCH: F.silu(x @ self._GATE_) * (x @ self._UP_)
# set RESULT: gate * tl.sigmoid(gate) * up

# family: glu_pair
# set GATE: glu_gate
# set UP: glu_up
# set TORCH: torch.sigmoid(x @ self._GATE_) * (x @ self._UP_)
# set RESULT: tl.sigmoid(gate) * up

# family: reglu
# set GATE: reglu_gate
# set UP: reglu_up
# set TORCH: torch.relu(x @ self._GATE_) * (x @ self._UP_)
# set RESULT: tl.maximum(gate, 0.0) * up

# --- init ---
self._GATE_ = nn.Parameter(torch.randn(_IN_, _OUT_) / _IN_ ** 0.5)
self._UP_ = nn.Parameter(torch.randn(_IN_, _OUT_) / _IN_ ** 0.5)

# --- forward ---
x = _TORCH_

# --- kernel ---
@triton.jit
def _KERNEL_(x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0)
        w_mask = (inner[:, None] < K) & (cols[None, :] < N)
        gate += tl.dot(x, tl.load(gate_ptr + inner[:, None] * N + cols[None, :], mask=w_mask, other=0.0), input_precision="ieee")
        up += tl.dot(x, tl.load(up_ptr + inner[:, None] * N + cols[None, :], mask=w_mask, other=0.0), input_precision="ieee")
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], _RESULT_, mask=(rows[:, None] < M) & (cols[None, :] < N))


def _NAME_(x, gate, up):
    K, N = gate.shape
    M = x.numel() // K
    out = torch.empty((*x.shape[:-1], N), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(M, _BM_), triton.cdiv(N, _BN_))
    _KERNEL_[grid](x, gate, up, out, M, N, K, BLOCK_M=_BM_, BLOCK_N=_BN_, BLOCK_K=32)
    return out

# --- call ---
x = _NAME_(x, self._GATE_, self._UP_)
