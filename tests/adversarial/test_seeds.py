"""What a candidate's process is told of seeds tells it nothing of the inputs that are still to come."""

import pytest

from evaluator_server import HEADER, PROBLEM

# Rng of src/base/rng.h, and its inverse: each step of mix() is a bijection.
INVERSION = (
    HEADER
    + '''
import inspect

M = (1 << 64) - 1
K1, K2, GAMMA, STEP = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03

def mix(z):
    z = (z ^ (z >> 30)) * K1 & M
    z = (z ^ (z >> 27)) * K2 & M
    return z ^ (z >> 31)

def unshift(z, n):
    found = z
    for _ in range(64 // n + 1):
        found = z ^ (found >> n)
    return found

def unmix(z):
    z = unshift(z, 31) * pow(K2, -1, 1 << 64) & M
    z = unshift(z, 27) * pow(K1, -1, 1 << 64) & M
    return unshift(z, 30)

def of_name(name):
    value = 0xCBF29CE484222325
    for c in name.encode():
        value = (value ^ c) * 0x100000001B3 & M
    return value

def derive(seed, index):
    index = of_name(index) if isinstance(index, str) else index
    return mix(mix(seed + GAMMA & M) ^ (index * STEP + 1 & M))

def parent(seed, index):
    index = of_name(index) if isinstance(index, str) else index
    return unmix(unmix(seed) ^ (index * STEP + 1 & M)) - GAMMA & M

assert parent(derive(12345, "init"), "init") == 12345 and parent(derive(7, 3), 3) == 7

def told():
    """The trusted side's request, wherever the worker keeps it."""
    for frame in inspect.stack():
        found = inspect.getargvalues(frame.frame).locals.get("request")
        if isinstance(found, dict):
            return found

def guesses():
    """Seeds of trials from the constructor's seed and from that of forward, whose lowest bit is cut off."""
    for cut in (0, 1):
        init = told().get("seed", SEED) * 2 + cut
        for base in (parent(init, "init"), init, init >> 1):
            for i in range(4):
                yield derive(derive(base, "trial"), i)
                yield derive(base, i)
        for i in range(4):
            yield parent(parent(told().get("forward_seed", 0) * 2 + cut, i), "forward")

SEED = told()["seed"]

class ModelNew(nn.Module):
    def forward(self, x):
        state = torch.get_rng_state()
        for seed in {0, 42, SEED, *guesses()}:
            for seed in (seed, seed >> 1):
                torch.manual_seed(seed & (1 << 63) - 1)
                if torch.equal(torch.randn(4, 100), x):
                    raise RuntimeError("the seed of the inputs is known")
        torch.set_rng_state(state)
        return launch(x)
'''
)


@pytest.mark.parametrize("seed", [0, 42])
def test_a_seed_that_is_told_does_not_tell_another(evaluator, seed):
    verdict = evaluator.judge(INVERSION, PROBLEM, seed=seed)
    assert verdict["correct"], verdict["diagnostics"]
    seeds = {trial["seed"] for trial in verdict["trials"]}
    assert len(seeds) == len(verdict["trials"]) == 3 and not seeds & {0, 42}, verdict["trials"]
    again = evaluator.judge(INVERSION + "\n# again\n", PROBLEM, seed=seed)
    assert {trial["seed"] for trial in again["trials"]} == seeds  # one problem's candidates share their inputs


# Each of 25 programs reads beyond x: which of them is named first hangs on the order in which they run.
BEYOND = (
    HEADER
    + """
@triton.jit
def beyond(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i + n), mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        beyond[(25,)](x, y, x.numel(), 16)
        return y
"""
)


def test_without_fresh_seeds_a_verdict_is_the_same_to_its_words(evaluator):
    asked = {"seed": 1, "fresh_seeds": False, "mode": "plan"}
    said = [evaluator.judge(BEYOND + f"\n# {i}\n", PROBLEM, **asked)["diagnostics"] for i in range(6)]
    assert "out-of-bounds load" in said[0] and len(set(said)) == 1, said
