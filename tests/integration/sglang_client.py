"""What a trainer that knows SGLang does to give an engine its weights: slime's and verl's way, in torch.distributed."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Backend, PrefixStore, _new_process_group_helper, _world, rendezvous


def init_custom_process_group(address, port, world_size, rank, group_name, backend="gloo", timeout=60):
    """As SGLang's of this name (python/sglang/srt/utils/common.py): a group beside whatever groups there are."""
    limit = timedelta(seconds=timeout)
    store, rank, world_size = next(rendezvous(f"tcp://{address}:{port}", rank, world_size, timeout=limit))
    store.set_timeout(limit)
    group, _ = _new_process_group_helper(
        world_size,
        rank,
        [],
        Backend(backend),
        PrefixStore(group_name, store),
        group_name=group_name,
        backend_options=None,
        timeout=limit,
    )
    _world.pg_group_ranks[group] = {i: i for i in range(world_size)}
    return group


def describe(tensors):
    """The fields of /update_weights_from_distributed that say what is about to be sent."""
    return {
        "names": [name for name, _ in tensors],
        "dtypes": [str(tensor.dtype).removeprefix("torch.") for _, tensor in tensors],
        "shapes": [list(tensor.shape) for _, tensor in tensors],
    }


def broadcast(tensors, group, flat=False):
    if flat:
        tensors = [("all", torch.cat([tensor.flatten() for _, tensor in tensors]))]
    works = [dist.broadcast(tensor.contiguous(), 0, group=group, async_op=True) for _, tensor in tensors]
    for work in works:
        work.wait()


def buckets(model, count):
    """All weights of a transformers model under their names, a tied head left out, in so many parts."""
    named = [(name, tensor.data) for name, tensor in model.named_parameters()]
    size = -(-len(named) // count)
    return [named[begin : begin + size] for begin in range(0, len(named), size)]
