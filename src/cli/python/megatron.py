"""Weights of Qwen2 and Qwen3 between Megatron-Core's torch_dist checkpoints and Hugging Face's safetensors.

usage: megatron.py REQUEST   a JSON object: to (hugging_face | torch_dist), model, output (folders), config
                             (config.json's content), like (the folder that it is of)
The last line of stdout is a JSON object: tensors; or error, kind. Optimizer states are not read.

A torch_dist checkpoint is one of torch.distributed.checkpoint: `.metadata`, a pickle of where each chunk of each tensor
lies, and files of chunks that torch.save wrote. Neither is trusted: the pickle may name the classes of SHAPES alone,
and chunks are read as tensors only. The layers of a model are one tensor, [layers, ...].
"""

import io
import json
import os
import pickle
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.checkpoint import filesystem, metadata

SHAPES = {
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
    "torch": {"Size"} | {str(value)[6:] for value in vars(torch).values() if isinstance(value, torch.dtype)},
}
SHARD_BYTES = 4 << 30  # of a safetensors file
# Of a layer that Transformer Engine may compute: nothing, as it is without fp8.
EXTRA_STATES = ("self_attention.linear_qkv", "self_attention.linear_proj", "mlp.linear_fc1", "mlp.linear_fc2")


class Refused(Exception):
    pass


class Shape:
    """What config.json says, and how Megatron's tensors follow from Hugging Face's."""

    def __init__(self, config):
        self.layers = config["num_hidden_layers"]
        self.hidden, self.intermediate = config["hidden_size"], config["intermediate_size"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        qwen3 = config["model_type"] == "qwen3"
        self.dim = config.get("head_dim") or (128 if qwen3 else self.hidden // self.heads)
        self.vocab = config["vocab_size"]
        self.tied = config.get("tie_word_embeddings", False)
        self.qk_norm = qwen3
        self.qkv_bias = not qwen3 or config.get("attention_bias", False)
        self.output_bias = qwen3 and self.qkv_bias

    def outside(self):
        """Megatron's name -> Hugging Face's, and the size."""
        names = {
            "embedding.word_embeddings.weight": ("model.embed_tokens.weight", [self.vocab, self.hidden]),
            "decoder.final_layernorm.weight": ("model.norm.weight", [self.hidden]),
        }
        if not self.tied:
            names["output_layer.weight"] = ("lm_head.weight", [self.vocab, self.hidden])
        return names

    def inside(self):
        """Of a layer: Megatron's name -> Hugging Face's names, whose rows it joins, and the size."""
        q, kv, h = self.heads * self.dim, self.kv_heads * self.dim, self.hidden
        attention, mlp = "self_attention", "mlp"
        names = {
            f"{attention}.linear_qkv.layer_norm_weight": (["input_layernorm.weight"], [h]),
            f"{attention}.linear_qkv.weight": ([f"self_attn.{n}_proj.weight" for n in "qkv"], [q + 2 * kv, h]),
            f"{attention}.linear_proj.weight": (["self_attn.o_proj.weight"], [h, q]),
            f"{mlp}.linear_fc1.layer_norm_weight": (["post_attention_layernorm.weight"], [h]),
            f"{mlp}.linear_fc1.weight": (["mlp.gate_proj.weight", "mlp.up_proj.weight"], [2 * self.intermediate, h]),
            f"{mlp}.linear_fc2.weight": (["mlp.down_proj.weight"], [h, self.intermediate]),
        }
        if self.qk_norm:
            for n in "qk":
                names[f"{attention}.{n}_layernorm.weight"] = ([f"self_attn.{n}_norm.weight"], [self.dim])
        if self.qkv_bias:
            names[f"{attention}.linear_qkv.bias"] = ([f"self_attn.{n}_proj.bias" for n in "qkv"], [q + 2 * kv])
        if self.output_bias:
            names[f"{attention}.linear_proj.bias"] = (["self_attn.o_proj.bias"], [h])
        return names

    def split(self, name, joined):
        """Rows of a joined tensor as Hugging Face's tensors have them. q, k and v lie by groups of heads."""
        if name.endswith("linear_fc1.weight"):
            return list(joined.chunk(2))
        if ".linear_qkv." not in name or name.endswith("layer_norm_weight"):
            return [joined]
        of_group = self.heads // self.kv_heads
        groups = joined.view(self.kv_heads, (of_group + 2) * self.dim, *joined.shape[1:])
        parts = groups.split([of_group * self.dim, self.dim, self.dim], dim=1)
        return [part.reshape(-1, *joined.shape[1:]) for part in parts]

    def join(self, name, parts):
        if ".linear_qkv." not in name or len(parts) == 1:
            return torch.cat(parts)
        groups = [part.view(self.kv_heads, -1, *part.shape[1:]) for part in parts]
        return torch.cat(groups, dim=1).reshape(-1, *parts[0].shape[1:])


class Names(pickle.Unpickler):
    def find_class(self, module, name):
        if name not in SHAPES.get(module, ()):
            raise Refused(f".metadata names {module}.{name}, which no checkpoint needs: it is not read")
        return super().find_class(module, name)


class Checkpoint:
    """A torch_dist checkpoint's tensors, a range of rows at a time."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, ".metadata"), "rb") as file:
            try:
                self.metadata = Names(file).load()
            except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, TypeError, ValueError) as error:
                raise Refused(f"{folder}/.metadata is damaged: {error}") from error
        if not isinstance(self.metadata, metadata.Metadata):
            raise Refused(f"{folder}/.metadata is no checkpoint's")
        tensors = {
            name: info
            for name, info in self.metadata.state_dict_metadata.items()
            if isinstance(info, metadata.TensorStorageMetadata)
        }
        table = "embedding.word_embeddings.weight"
        prefixes = [name[: -len(table)] for name in tensors if name.endswith(table) and "optimizer" not in name]
        if len(prefixes) != 1:
            raise Refused(f"{folder} has no {table}: it holds {', '.join(sorted(tensors)[:5])} ...")
        self.prefix = prefixes[0]
        self.tensors = {
            name[len(self.prefix) :]: info
            for name, info in tensors.items()
            if name.startswith(self.prefix) and not name.startswith(("optimizer", "chained_", "rng_state"))
        }

    def rows(self, name, size, first=None):
        """The tensor of that size, whose first rows may be all that is wanted; of [layers, ...] layer `first`."""
        info = self.tensors[name]
        has = list(info.size) if first is None else list(info.size[1:])
        padded = name in ("embedding.word_embeddings.weight", "output_layer.weight")  # to a multiple of 128 tokens
        if has[1:] != size[1:] or has[0] < size[0] or (has[0] != size[0] and not padded):
            raise Refused(f"{name} is of {has} in {self.folder}, {size} by config.json")
        lead = 0 if first is None else 1
        whole = torch.empty(size, dtype=info.properties.dtype)
        filled = 0
        for chunk in info.chunks:
            offsets, sizes = list(chunk.offsets), list(chunk.sizes)
            if lead and not offsets[0] <= first < offsets[0] + sizes[0]:
                continue
            to = [slice(o, min(o + s, n)) for o, s, n in zip(offsets[lead:], sizes[lead:], size)]
            if any(part.start >= part.stop for part in to):
                continue  # padding
            stored = self.chunk(name, chunk)
            part = stored[first - offsets[0]] if lead else stored
            part = part[tuple(slice(0, s.stop - s.start) for s in to)]
            whole[tuple(to)] = part
            filled += part.numel()
        if filled != whole.numel():
            raise Refused(f"{self.folder}: the chunks of {name} hold {filled} of {whole.numel()} elements")
        return whole

    def chunk(self, name, chunk):
        place = self.metadata.storage_data.get(metadata.MetadataIndex(self.prefix + name, chunk.offsets))
        if place is None:
            raise Refused(f"{self.folder}: nothing says where {name} at {list(chunk.offsets)} lies")
        if getattr(place, "transform_descriptors", None):
            raise Refused(f"{self.folder}: {name} is stored through {place.transform_descriptors}")
        path = os.path.join(self.folder, os.path.basename(place.relative_path))
        with open(path, "rb") as file:
            file.seek(place.offset)
            data = file.read(place.length)
        try:
            stored = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except Exception as error:  # whatever torch says of a damaged archive
            raise Refused(f"{path}: {name} is damaged: {str(error).splitlines()[0]}") from error
        if list(stored.shape) != list(chunk.sizes):
            raise Refused(f"{path}: {name} is of {list(stored.shape)}, {list(chunk.sizes)} by .metadata")
        return stored


def to_hugging_face(request, shape):
    source = Checkpoint(request["model"])
    known = set(shape.outside())
    stacked = "decoder.layers." + next(iter(shape.inside())) in source.tensors
    for name in shape.inside():
        layers = [""] if stacked else [f"{layer}." for layer in range(shape.layers)]
        known |= {f"decoder.layers.{layer}{name}" for layer in layers}
    missing, others = known - set(source.tensors), set(source.tensors) - known
    others = {name for name in others if "_extra_state" not in name}
    if missing or others:
        what, names = ("no", missing) if missing else ("also", others)
        names = ", ".join(sorted(names)[:3])
        raise Refused(f"{request['model']} has {what} {names}: it is of another model than {request['like']}")
    for name in shape.inside() if stacked else ():
        if source.tensors[f"decoder.layers.{name}"].size[0] != shape.layers:
            layers = source.tensors[f"decoder.layers.{name}"].size[0]
            raise Refused(f"{request['model']} has {layers} layers, {shape.layers} by config.json")

    files, tensors, held = [], {}, 0

    def put(name, tensor):
        nonlocal tensors, held
        if held + tensor.nbytes > SHARD_BYTES and tensors:
            files.append(tensors.keys())
            save_file(tensors, os.path.join(request["output"], f"part-{len(files):05}.safetensors"))
            tensors, held = {}, 0
        tensors[name] = tensor.contiguous()
        held += tensor.nbytes

    for name, (to, size) in shape.outside().items():
        put(to, source.rows(name, size))
    for layer in range(shape.layers):
        for name, (to, size) in shape.inside().items():
            place = f"decoder.layers.{name}" if stacked else f"decoder.layers.{layer}.{name}"
            joined = source.rows(place, size, layer if stacked else None)
            for part, tensor in zip(to, shape.split(name, joined)):
                put(f"model.layers.{layer}.{part}", tensor)
    files.append(tensors.keys())
    save_file(tensors, os.path.join(request["output"], f"part-{len(files):05}.safetensors"))
    where = {}
    for number, names in enumerate(files, start=1):
        target = f"model-{number:05}-of-{len(files):05}.safetensors"
        part = os.path.join(request["output"], f"part-{number:05}.safetensors")
        os.rename(part, os.path.join(request["output"], target))
        where |= dict.fromkeys(names, target)
    with open(os.path.join(request["output"], "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": where}, file)
    return {"tensors": len(where)}


class Writer:
    """Chunks, one after the other, in one file."""

    def __init__(self, folder):
        self.folder, self.name = folder, "__0_0.distcp"
        self.file = open(os.path.join(folder, self.name), "wb")  # noqa: SIM115 (finish() closes it)
        self.entries, self.places = {}, {}

    def put(self, index, value):
        begin = self.file.tell()
        torch.save(value, self.file)
        self.places[index] = filesystem._StorageInfo(self.name, begin, self.file.tell() - begin)

    def tensor(self, name, chunk, size=None, layer=None):
        """A tensor, or a layer of one that is [layers, ...]."""
        if layer is not None:
            chunk = chunk.unsqueeze(0)
        offsets = torch.Size([layer or 0] + [0] * (chunk.dim() - 1))
        if name not in self.entries:
            self.entries[name] = metadata.TensorStorageMetadata(
                metadata.TensorProperties.create_from_tensor(chunk), torch.Size(size or chunk.shape), []
            )
        self.entries[name].chunks.append(metadata.ChunkStorageMetadata(offsets, chunk.shape))
        self.put(metadata.MetadataIndex(name, offsets), chunk.clone())

    def object(self, name, value):
        self.entries[name] = metadata.BytesStorageMetadata()
        self.put(metadata.MetadataIndex(name), value)

    def finish(self):
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        torch.save({}, os.path.join(self.folder, "common.pt"))
        backends = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
        backends |= {"common_backend": "torch", "common_backend_version": 1}
        with open(os.path.join(self.folder, "metadata.json"), "w") as file:
            json.dump(backends, file)
        whole = metadata.Metadata(self.entries, storage_data=self.places, storage_meta=metadata.StorageMeta())
        with open(os.path.join(self.folder, ".metadata"), "wb") as file:
            pickle.dump(whole, file)


def safe_tensors(path):
    return safe_open(path, "pt")


def to_torch_dist(request, shape):
    folder = request["model"]
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".safetensors")]
    where = {name: file for file in map(safe_tensors, files) for name in file.keys()}  # noqa: SIM118 (no dict)
    writer = Writer(request["output"])
    for name, (of, _) in shape.outside().items():
        writer.tensor(name, where[of].get_tensor(of))
    for layer in range(shape.layers):
        for name, (of, size) in shape.inside().items():
            parts = [f"model.layers.{layer}.{part}" for part in of]
            joined = shape.join(name, [where[part].get_tensor(part) for part in parts])
            writer.tensor(f"decoder.layers.{name}", joined, [shape.layers, *size], layer)
        for name in EXTRA_STATES:
            writer.object(f"decoder.layers.{name}._extra_state/shard_{layer}_{shape.layers}", [None])
    writer.finish()
    return {"tensors": len(writer.entries)}


def main():
    request = json.loads(sys.argv[1])
    shape = Shape(request["config"])
    convert = to_torch_dist if request["to"] == "torch_dist" else to_hugging_face
    print(json.dumps(convert(request, shape)))


if __name__ == "__main__":
    try:
        main()
    except Refused as error:
        print(json.dumps({"kind": "corrupt", "error": str(error)}))
    except OSError as error:
        kind = "not_found" if isinstance(error, FileNotFoundError) else "unavailable"
        print(json.dumps({"kind": kind, "error": f"{error.filename}: {error.strerror}"}))
