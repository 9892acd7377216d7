"""Encode speed on one core, ours and the `tokenizers` library's, on the same files, in turns, by processor
time (so that other work on the machine does not count).
usage: tokenizer_encode_peer.py BUILD_FOLDER [--tokenizer FOLDER] [--repeats N] [FILE...]
Without files: this Python's torch sources (code) and this repository's documents (prose). Where this Python has
tiktoken and bpe-qwen (that of `requirements/install --data-peers`; name the files then), their encoders of the same
vocabulary and pattern are beside them. The last line is ours with a thread a core."""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import plain_errors
import tokenizers

try:
    import tiktoken
except ImportError:
    tiktoken = None

ROOT = pathlib.Path(__file__).resolve().parents[1]
plain_errors.use()
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("build", type=pathlib.Path)
qwen3 = ROOT.parent / "shared/data/qwen3-tokenizer"
parser.add_argument(
    "--tokenizer", type=pathlib.Path, default=qwen3 if qwen3.exists() else ROOT / "tests/data/tiny-tokenizer"
)
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("files", nargs="*", type=pathlib.Path)
options = parser.parse_args()

files = options.files
if not files:
    torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent
    files = (
        sorted((torch / "_inductor").glob("**/*.py"))
        + sorted((torch / "nn").glob("**/*.py"))
        + sorted(ROOT.glob("docs/*.md"))
    )


def tiktoken_encoder(definition):
    """The same vocabulary and pattern: ids are ranks in Qwen's vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    ranks = {bytes(byte_of[c] for c in token): rank for token, rank in definition["model"]["vocab"].items()}
    steps = definition["pre_tokenizer"]["pretokenizers"]
    pattern = next(step["pattern"]["Regex"] for step in steps if step["type"] == "Split")
    return tiktoken.Encoding("same", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def bpe_qwen_encoder(definition):
    """Its compiled part alone: the package around it wants transformers. None where it is not there."""
    package = importlib.util.find_spec("bpe_qwen")
    if package is None:
        return None
    library = next(pathlib.Path(package.origin).parent.glob("bpe_qwen*.so"))
    loader = importlib.machinery.ExtensionFileLoader("bpe_qwen", str(library))
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("bpe_qwen", loader, origin=str(library)))
    loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder:
        merges = (m if isinstance(m, str) else " ".join(m) for m in definition["model"]["merges"])
        (pathlib.Path(folder) / "vocab.json").write_text(json.dumps(definition["model"]["vocab"]))
        (pathlib.Path(folder) / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        return module.QwenTokenizer(folder)


cores = os.sched_getaffinity(0)
core = min(cores)
os.sched_setaffinity(0, {core})
reference = tokenizers.Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
texts = [file.read_bytes().decode() for file in files]
size = sum(len(text.encode()) for text in texts)
ours, cold, theirs, tik, bpe, ours_tokens = [], [], [], [], [], 0
definition = json.loads((options.tokenizer / "tokenizer.json").read_text())
encoder = tiktoken and tiktoken_encoder(definition)
bpe_qwen = bpe_qwen_encoder(definition)
for _ in range(options.repeats):
    done = subprocess.run(
        [options.build / "bench/tokenizer_encode", options.tokenizer, "3", "1", *files],
        check=True,
        capture_output=True,
        text=True,
    )
    answer = json.loads(done.stdout)
    ours.append(statistics.median(answer["mb_per_s"]))
    cold.append(answer["mb_per_s"][0])
    ours_tokens = answer["tokens"]
    start = time.process_time()
    tokens = sum(len(reference.encode(text, add_special_tokens=False).ids) for text in texts)
    theirs.append(size / 1e6 / (time.process_time() - start))
    if encoder:
        start = time.process_time()
        tik_tokens = sum(len(encoder.encode_ordinary(text)) for text in texts)
        tik.append(size / 1e6 / (time.process_time() - start))
    if bpe_qwen:
        start = time.process_time()
        bpe_tokens = sum(len(bpe_qwen.encode(text)) for text in texts)
        bpe.append(size / 1e6 / (time.process_time() - start))
assert tokens == ours_tokens, f"{ours_tokens} tokens, and {tokens} from the library"


def spread(values):
    return f"{min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}"


print(
    f"tokenizer_encode: {len(files)} files, {size / 1e6:.1f} MB, {tokens} tokens (equal), core {core}, "
    f"{options.tokenizer.name}, loaded in {answer['load_s']:.2f} s"
)
print(f"  ours              {spread(ours)} MB per CPU second (min / median / max)")
print(f"    first pass      {spread(cold)}, with no word known yet")
print(f"  tokenizers {tokenizers.__version__}  {spread(theirs)} MB per CPU second")
print(f"  ratio             {spread([a / b for a, b in zip(ours, theirs)])}")
if tik:
    print(f"  tiktoken {tiktoken.__version__}   {spread(tik)} MB per CPU second, {tik_tokens} tokens")
    print(f"  ratio             {spread([a / b for a, b in zip(ours, tik)])}")
if bpe:
    print(f"  bpe-qwen          {spread(bpe)} MB per CPU second, {bpe_tokens} tokens")
    print(f"  ratio             {spread([a / b for a, b in zip(ours, bpe)])}")
os.sched_setaffinity(0, cores)
command = [options.build / "bench/tokenizer_encode", options.tokenizer, options.repeats, len(cores), *files]
done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
threads = json.loads(done.stdout)["mb_per_s"][1:]  # the first pass knows no word
print(f"  {len(cores)} threads         {spread(threads)} MB per CPU second of each")
