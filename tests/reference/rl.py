"""Golden values of the RL algorithms, from their papers' formulas in plain loops and float64 autograd; it shares no
line with src/. Writes rl.json beside itself: `python tests/reference/rl.py`. tests/integration/test_reference.py says
whether the file is still what this program writes."""

import json
import math
import pathlib
import random

import torch

FILE = pathlib.Path(__file__).with_name("rl.json")
LENGTHS = [3, 1, 4, 2]  # targets of the four sequences of a batch


def numbers(rng, low, high):
    return [[round(rng.uniform(low, high), 4) for _ in range(n)] for n in LENGTHS]


def batch():
    """Log-probs of policy, old policy, sampler and reference: rows are sequences."""
    rng = random.Random(7)
    policy = numbers(rng, -2.5, -0.1)
    near = [[round(p + d, 4) for p, d in zip(a, b)] for a, b in zip(policy, numbers(rng, -0.5, 0.5))]
    sampler = [[round(p + d, 4) for p, d in zip(a, b)] for a, b in zip(near, numbers(rng, -0.6, 0.6))]
    for row in (0, 2):  # one good and one bad sequence that the policy finds less likely than the sampler did
        sampler[row] = [round(s + 0.35, 4) for s in sampler[row]]
    reference = [[round(p + d, 4) for p, d in zip(a, b)] for a, b in zip(policy, numbers(rng, -0.8, 0.8))]
    # The first sequence is on-policy, the third half of it.
    on_policy = [[1, 1, 1], [0], [1, 1, 0, 0], [0, 0]]
    return {"policy": policy, "old": near, "sampler": sampler, "reference": reference, "on_policy": on_policy}


# ---- advantages of a group of returns ----


def grpo(r):
    mean = sum(r) / len(r)
    std = math.sqrt(sum((x - mean) ** 2 for x in r) / len(r))
    return [(x - mean) / (std + 1e-6) for x in r]


def dr_grpo(r):
    return [x - sum(r) / len(r) for x in r]


def rloo(r):
    return [x - sum(r[:i] + r[i + 1 :]) / (len(r) - 1) for i, x in enumerate(r)]


def whitened(rows):
    """REINFORCE++: over all tokens of the batch, as OpenRLHF does it."""
    tokens = [a for row in rows for a in row]
    mean = sum(tokens) / len(tokens)
    variance = sum((a - mean) ** 2 for a in tokens) / len(tokens)
    return [[(a - mean) / math.sqrt(max(variance, 1e-8)) for a in row] for row in rows]


def overlong(length, longest, cache):
    """DAPO, equation 13."""
    if length <= longest - cache:
        return 0.0
    if length <= longest:
        return ((longest - cache) - length) / cache
    return -1.0


# ---- losses: functions of the sequences' log-probs, each a list of scalars ----


def clipped(r, a, low, high):
    return torch.minimum(r * a, torch.clamp(r, 1 - low, 1 + high) * a)


def token_surrogate(b, low, high):
    """PPO's clipped surrogate of every token."""
    return [
        [clipped(torch.exp(p - o), a, low, high) for p, o, a in zip(*row)]
        for row in zip(b["policy"], b["old"], b["advantages"])
    ]


def sequence_mean(rows):
    return sum(sum(row) / len(row) for row in rows) / len(rows)


def token_mean(rows):
    return sum(sum(row) for row in rows) / sum(len(row) for row in rows)


def grpo_loss(b, beta):
    kl = [[torch.exp(f - p) - (f - p) - 1 for p, f in zip(*row)] for row in zip(b["policy"], b["reference"])]
    return -sequence_mean(token_surrogate(b, 0.2, 0.2)) + beta * sequence_mean(kl)


def dr_grpo_loss(b, tokens):
    return -sum(sum(row) for row in token_surrogate(b, 0.2, 0.2)) / (len(LENGTHS) * tokens)


def dapo_loss(b):
    return -token_mean(token_surrogate(b, 0.2, 0.28))


def rloo_loss(b):
    """REINFORCE on the log-probability of the whole sequence."""
    return -sum(row[0] * sum(p) for row, p in zip(b["advantages"], b["policy"])) / len(LENGTHS)


def reinforce_loss(b):
    rows = [[a * p for a, p in zip(*row)] for row in zip(whitened(b["advantages"]), b["policy"])]
    return -token_mean(rows)


def gspo_loss(b):
    total = 0
    for policy, old, advantages in zip(b["policy"], b["old"], b["advantages"]):
        ratio = torch.exp(sum(p - o for p, o in zip(policy, old)) / len(policy))
        total = total + clipped(ratio, advantages[0], 0.03, 0.04)
    return -total / len(LENGTHS)


def cispo_loss(b):
    rows = []
    for policy, old, advantages in zip(b["policy"], b["old"], b["advantages"]):
        weights = [min(math.exp(p.item() - o), 1 + 0.28) for p, o in zip(policy, old)]
        rows.append([w * a * p for w, a, p in zip(weights, advantages, policy)])
    return -token_mean(rows)


def tis_loss(b, cap, sequence, on_policy_too=False):
    rows = []
    for i, row in enumerate(token_surrogate(b, 0.2, 0.28)):
        logs = [
            0.0 if on and not on_policy_too else o - s
            for o, s, on in zip(b["old"][i], b["sampler"][i], b["on_policy"][i])
        ]
        if sequence:
            logs = [sum(logs)] * len(logs)
        rows.append([min(math.exp(x), cap) * j for x, j in zip(logs, row)])
    return -token_mean(rows)


def masked_loss(b, delta):
    rows = token_surrogate(b, 0.2, 0.28)
    for i, row in enumerate(rows):
        divergence = sum(s - p.item() for s, p in zip(b["sampler"][i], b["policy"][i])) / LENGTHS[i]
        if b["advantages"][i][0] < 0 and divergence > delta:
            rows[i] = [0.0 * j for j in row]
    return -token_mean(rows)


def kl_in_advantage_loss(b, beta):
    shaped = [[a - beta * (o - f) for a, o, f in zip(*row)] for row in zip(b["advantages"], b["old"], b["reference"])]
    return -token_mean(token_surrogate({**b, "advantages": shaped}, 0.2, 0.28))


# name, the loss of src/train/config.h that must give the same, the function; `value`: whether only gradients agree
# (ours multiplies a ratio of 1 where REINFORCE has a log-probability).
CASES = [
    ("grpo", {"clip_high": 0.2, "kl_coef": 0.04, "aggregation": "seq-mean-token-mean"}, lambda b: grpo_loss(b, 0.04)),
    (
        "dr_grpo",
        {"clip_high": 0.2, "aggregation": "constant", "constant_tokens": 10},
        lambda b: dr_grpo_loss(b, 10),
    ),
    ("dapo", {}, dapo_loss),
    ("rloo", {"aggregation": "seq-mean-token-sum", "on_policy": True}, rloo_loss),
    ("reinforce++", {"normalize_advantages": True, "on_policy": True}, reinforce_loss),
    (
        "gspo",
        {"objective": "gspo", "clip_low": 0.03, "clip_high": 0.04, "aggregation": "seq-mean-token-mean"},
        gspo_loss,
    ),
    ("cispo", {"objective": "cispo", "clip_low": 1.0}, cispo_loss),
    ("token-level TIS", {"tis_cap": 1.2}, lambda b: tis_loss(b, 1.2, sequence=False)),
    ("sequence-level TIS", {"tis": "sequence", "tis_cap": 1.3}, lambda b: tis_loss(b, 1.3, sequence=True)),
    (
        "token-level TIS of every token",
        {"tis_cap": 1.2, "tis_on_policy": True},
        lambda b: tis_loss(b, 1.2, sequence=False, on_policy_too=True),
    ),
    ("off-policy sequence masking", {"mask_divergence": 0.05}, lambda b: masked_loss(b, 0.05)),
    ("k1 in the advantage", {"kl_coef": 0.1, "kl_type": "k1"}, lambda b: kl_in_advantage_loss(b, 0.1)),
]


def golden():
    data = batch()
    groups = [[0.8, -0.1, 0.3, 0.3], [1.2, 0.8, -0.1, 0.3, 0.8]]
    advantages = [
        {"name": name, "returns": r, "advantages": rule(r)}
        for r in groups
        for name, rule in (("grpo", grpo), ("grpo_nostd", dr_grpo), ("rloo", rloo), ("none", list))
    ]
    penalties = [{"length": n, "penalty": overlong(n, 100, 40)} for n in (1, 60, 61, 80, 99, 100)]
    per_sequence = [0.9, -1.3, -0.4, 0.7]
    losses = []
    for name, options, function in CASES:
        loss = {"tis_cap": 0, **options}
        on_policy = loss.pop("on_policy", False)
        b = dict(data, advantages=[[a] * n for a, n in zip(per_sequence, LENGTHS)])
        if on_policy:
            b["old"] = b["policy"]
        b["policy"] = [[torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in row] for row in b["policy"]]
        value = function(b)
        value.backward()
        gradients = [0.0 if p.grad is None else p.grad.item() for row in b["policy"] for p in row]
        case = {"name": name, "loss": loss, "old": b["old"], "gradients": gradients}
        if not on_policy:
            case["value"] = value.item()
        losses.append(case)
    return {
        "advantages": advantages,
        "overlong": {"longest": 100, "cache": 40, "penalties": penalties},
        "batch": dict(data, advantages=per_sequence),
        "losses": losses,
    }


def text():
    def rounded(value):
        if isinstance(value, float):
            return float(f"{value:.10g}")
        if isinstance(value, dict):
            return {key: rounded(item) for key, item in value.items()}
        return [rounded(item) for item in value] if isinstance(value, list) else value

    sections = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rounded(golden()).items())
    return "{" + ",\n".join(sections) + "}\n"


if __name__ == "__main__":
    FILE.write_text(text())
