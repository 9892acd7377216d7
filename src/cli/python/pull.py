"""Fetches one repository of the Hugging Face hub into its cache, and compares every file with the hub's checksum.

usage: pull.py REQUEST      a JSON object: id, type (model | dataset), revision, file ("" = what training takes of it)
Progress goes to stderr; the last line of stdout is a JSON object: snapshot, commit, files, bytes; or error, kind.
HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN and the rest of the library's variables hold.
"""

import hashlib
import json
import os
import shutil
import sys
from fnmatch import fnmatch

try:
    import huggingface_hub
    from huggingface_hub import constants, errors
except ImportError:
    print(json.dumps({"kind": "machine", "error": f"huggingface_hub is not in {sys.executable}"}))
    sys.exit(0)

# Weights in forms that run code when they are read, or that nothing here reads.
UNWANTED = ["*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.tflite", "*.mlmodel"]


# What is lost where a connection ends: the library keeps whole pieces, of 10 MB unless told.
PIECE = 1 << 20


class Refused(Exception):
    pass


def chosen(files, request):
    """The files of the request; of a model without one, all but other frameworks' weights."""
    names = [file.rfilename for file in files]
    if request["file"]:
        inside = [f for f in files if f.rfilename == request["file"] or f.rfilename.startswith(request["file"] + "/")]
        if not inside:
            raise Refused(f"{request['id']} has no file {request['file']} (it has {', '.join(names[:12])})")
        return inside
    if request["type"] == "model":
        blocks = [name for name in names if name.endswith(".gguf")]
        if len(blocks) > 1 and not any(name.endswith(".safetensors") for name in names):
            raise Refused(
                f"{request['id']} holds several GGUF files, name one: {request['id']}/{blocks[0]}"
                f" (others: {', '.join(blocks[1:12])})"
            )
        return [f for f in files if not any(fnmatch(f.rfilename, pattern) for pattern in UNWANTED)]
    return files


def digest(path, file):
    """As the hub has it: SHA-256 of large files, git's name of the others."""
    value = hashlib.sha256() if file.lfs else hashlib.sha1(f"blob {os.path.getsize(path)}\0".encode())
    with open(path, "rb") as stream:
        while piece := stream.read(PIECE):
            value.update(piece)
    return value.hexdigest()


def pull(request):
    api = huggingface_hub.HfApi()
    info = api.repo_info(request["id"], revision=request["revision"], repo_type=request["type"], files_metadata=True)
    files = chosen(info.siblings, request)
    need = sum(file.size or 0 for file in files)
    cache = constants.HF_HUB_CACHE
    constants.DOWNLOAD_CHUNK_SIZE = PIECE
    os.makedirs(cache, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if need > free:
        raise Refused(f"{request['id']} has {need / 1e9:.1f} GB and {free / 1e9:.1f} GB are free in {cache} (HF_HOME)")
    print(f"{request['id']} at {info.sha[:12]}: {len(files)} files, {need / 1e6:.1f} MB", file=sys.stderr)
    # The request's own revision, so that the cache knows which commit it stands for.
    snapshot = huggingface_hub.snapshot_download(
        request["id"],
        revision=request["revision"],
        repo_type=request["type"],
        allow_patterns=[file.rfilename for file in files],
    )
    wrong = []
    for file in files:
        path = os.path.join(snapshot, file.rfilename)
        wanted = file.lfs.sha256 if file.lfs else file.blob_id
        if digest(path, file) != wanted:
            os.remove(os.path.realpath(path))
            os.remove(path)
            wrong.append(file.rfilename)
    if wrong:
        raise Refused(
            f"{', '.join(wrong)} of {request['id']} came with another checksum than the hub says, and was "
            "removed; the same command fetches it again"
        )
    return {"snapshot": snapshot, "commit": info.sha, "files": len(files), "bytes": need}


def main():
    request = json.loads(sys.argv[1])
    try:
        result = pull(request)
    except Refused as error:
        result = {"kind": "failed", "error": str(error)}
    except errors.GatedRepoError:
        result = {"kind": "usage", "error": f"{request['id']} wants its terms accepted on the hub, and HF_TOKEN set"}
    except errors.RepositoryNotFoundError:
        result = {
            "kind": "not_found",
            "error": f"the hub has no {request['type']} {request['id']} (a private one needs HF_TOKEN)",
        }
    except errors.RevisionNotFoundError:
        result = {"kind": "not_found", "error": f"{request['id']} has no revision {request['revision']}"}
    except Exception as error:  # whatever the network or the library raises is one line
        text = " ".join(str(error).split()) or type(error).__name__
        result = {"kind": "unavailable", "error": f"{constants.ENDPOINT}: {text[:300]}"}
    print(json.dumps(result))


main()
