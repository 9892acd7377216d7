#!/usr/bin/env python3
"""The peer of train_gpu's packed case: Qwen3-8B's layers in plain torch, torch.compile, ATen's variable-length flash
attention, fused AdamW with bfloat16 states, without clipping.

usage: train_packed_peer.py LENGTH,LENGTH,... [--layers 8] [--steps 8] [--prompt 0]
(train_gpu prints the lengths that it packs; of a prompt's tokens, the first of every sequence, no logits are computed)
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.varlen import varlen_attn

PEAK = 989e12
HIDDEN, WIDE, HEADS, KV_HEADS, DIM, VOCAB = 4096, 12288, 32, 8, 128, 151936


def linear(inner: int, outer: int) -> nn.Linear:
    return nn.Linear(inner, outer, bias=False, device="cuda", dtype=torch.bfloat16)


def norm(width: int) -> nn.RMSNorm:
    return nn.RMSNorm(width, eps=1e-6, device="cuda", dtype=torch.bfloat16)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat((-b, a), -1) * sin).to(x.dtype)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = linear(HIDDEN, (HEADS + 2 * KV_HEADS) * DIM)
        self.out = linear(HEADS * DIM, HIDDEN)
        self.gate_up, self.down = linear(HIDDEN, 2 * WIDE), linear(WIDE, HIDDEN)
        self.norm1, self.norm2, self.q_norm, self.k_norm = norm(HIDDEN), norm(HIDDEN), norm(DIM), norm(DIM)

    def forward(self, x: torch.Tensor, batch: tuple) -> torch.Tensor:
        cos, sin, starts, longest = batch
        q, k, v = self.qkv(self.norm1(x)).view(-1, HEADS + 2 * KV_HEADS, DIM).split((HEADS, KV_HEADS, KV_HEADS), 1)
        q, k = rotate(self.q_norm(q), cos, sin), rotate(self.k_norm(k), cos, sin)
        mixed = varlen_attn(q, k, v.contiguous(), starts, starts, longest, longest, window_size=(-1, 0))
        x = x + self.out(mixed.reshape(-1, HEADS * DIM))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN, device="cuda", dtype=torch.bfloat16)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = norm(HIDDEN), linear(HIDDEN, VOCAB)

    def forward(
        self, ids: torch.Tensor, targets: torch.Tensor, rows: torch.Tensor | None, batch: tuple
    ) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, batch)
        return F.cross_entropy(self.head(self.norm(x if rows is None else x.index_select(0, rows))).float(), targets)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("lengths", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model(args.layers)
    compiled = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    tokens = sum(args.lengths)
    positions = torch.cat([torch.arange(n) for n in args.lengths]).cuda()
    angles = positions[:, None] / 1e6 ** (torch.arange(0, DIM, 2, device="cuda") / DIM)
    angles = torch.cat((angles, angles), -1)[:, None]
    rows = (positions >= args.prompt - 1).nonzero()[:, 0] if args.prompt else None
    starts = torch.tensor([0, *args.lengths]).cumsum(0).int().cuda()
    batch = (angles.cos().bfloat16(), angles.sin().bfloat16(), starts, max(args.lengths))
    seconds = []
    for step in range(-3, args.steps):
        ids = torch.randint(VOCAB, (tokens + 1,), device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = compiled(ids[:-1], ids[1:] if rows is None else ids[1:][rows], rows, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= 0:
            seconds.append(time.perf_counter() - begin)
    matrices = sum(p.numel() for n, p in model.named_parameters() if p.dim() == 2 and n != "embed.weight")
    head = model.head.weight.numel()
    flops = 6 * ((matrices - head) * tokens + head * (tokens if rows is None else len(rows))) + sum(
        6 * args.layers * n * n * HEADS * DIM for n in args.lengths
    )
    median = statistics.median(seconds)
    print(
        f"torch.compile, varlen, bf16 states    {median * 1e3:7.1f} ms ({min(seconds) * 1e3:.1f} to "
        f"{max(seconds) * 1e3:.1f})  {tokens / median:7.0f} tokens/s  MFU {100 * flops / median / PEAK:4.1f} %  "
        f"{torch.cuda.max_memory_allocated() / 2**30:5.1f} GiB  loss {loss.item():.4f}"
    )


main()
