# A linear recurrence over time, h = decay * h + x: the module goes step by step, the kernel scans pairs of decay and
# value.

# takes: sequences
# choose DECAY: 0.5 | 0.8 | 0.9
# choose R: row | lane
# epilogue: 0..1

# --- forward ---
state, states = torch.zeros_like(x[:, 0]), []
for step in range(x.shape[1]):
    state = _DECAY_ * state + x[:, step]
    states.append(state)
x = torch.stack(states, dim=1)
x = _EPILOGUE_(x)

# --- kernel ---
@triton.jit
def decayed_sum(decay_a, value_a, decay_b, value_b):
    return decay_a * decay_b, decay_b * value_a + value_b


@triton.jit
def linear_recurrence_kernel(x_ptr, out_ptr, T, D, decay, BLOCK: tl.constexpr):
    _R_ = tl.program_id(0)
    time = tl.arange(0, BLOCK)
    place = (_R_ // D * T + time) * D + _R_ % D
    x = tl.load(x_ptr + place, mask=time < T, other=0.0)
    decays = tl.zeros((BLOCK,), dtype=tl.float32) + decay
    decays, x = tl.associative_scan((decays, x), 0, decayed_sum)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + place, x, mask=time < T)


def linear_recurrence(x):
    B, T, D = x.shape
    out = torch.empty_like(x)
    linear_recurrence_kernel[(B * D,)](x, out, T, D, _DECAY_, BLOCK=triton.next_power_of_2(T))
    return out

# --- call ---
x = linear_recurrence(x)
