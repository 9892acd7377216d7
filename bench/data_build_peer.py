"""`tritonforge data build` beside the same steps written with datasets, tokenizers and datasketch, on the stand-in of
bench/kernelbook_like.py: conversion, chat format, tokens, length filter, duplicates (exact, normalised AST, near by
MinHash-LSH), JSON lines. Wall time and the largest resident memory of each, on the cores that this process may use.
usage: data_build_peer.py BUILD_FOLDER [--rows 18200] [--tokenizer FOLDER] [--ours-only]
Needs `requirements/install --data-peers`. The peer's near-duplicates are datasketch's, of shingles of 5 tokens, too."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time

import plain_errors

ROOT = pathlib.Path(__file__).resolve().parents[1]
plain_errors.use()
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("build", type=pathlib.Path)
parser.add_argument("--rows", type=int, default=18200)
qwen3 = ROOT.parent / "shared/data/qwen3-tokenizer"
parser.add_argument("--tokenizer", type=pathlib.Path, default=qwen3 if qwen3.exists() else ROOT / "models/tiny-base")
parser.add_argument("--ours-only", action="store_true")
options = parser.parse_args()
program = options.build / "tritonforge"
program.stat()  # before the rows are made

PEER = r"""
import ast, hashlib, json, re, sys
import datasets, tokenizers
from datasketch import MinHash, MinHashLSH
from chatml import render

class Rename(ast.NodeTransformer):
    def __init__(self, bound):
        self.names, self.bound = {}, bound
    def of(self, name):
        return self.names.setdefault(name, f"v{len(self.names)}") if name in self.bound else name
    def visit_Name(self, node):
        node.id = self.of(node.id)
        return node
    def visit_arg(self, node):
        node.arg = self.of(node.arg)
        return node
    def visit_FunctionDef(self, node):
        node.name = self.of(node.name)
        return self.generic_visit(node)
    visit_ClassDef = visit_FunctionDef

def normalised(text):
    tree = ast.parse(text)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    return ast.dump(Rename(bound).visit(tree))

tokenizer = tokenizers.Tokenizer.from_file(sys.argv[2] + "/tokenizer.json")

def convert(batch):
    messages, texts = [], []
    for problem, solution, entry in zip(batch["python_code"], batch["triton_code"], batch["entry_point"]):
        problem = re.sub(rf"\b{entry}\b", "Model", problem)
        solution = re.sub(rf"\b{entry}New\b", "ModelNew", solution)
        asked = [{"role": "user", "content": problem}, {"role": "assistant", "content": f"```python\n{solution}```"}]
        messages.append(json.dumps(asked))
        texts.append(problem + "\n" + solution)
    encodings = tokenizer.encode_batch([render(json.loads(m)) for m in messages])
    return {"messages": messages, "text": texts, "tokens": [e.ids for e in encodings]}

def signature(batch):
    exact, form, hashes = [], [], []
    for text in batch["text"]:
        exact.append(hashlib.md5(text.encode()).hexdigest())
        form.append(hashlib.md5(normalised(text).encode()).hexdigest())
        words = re.findall(r"\w+|[^\w\s]", text)
        minhash = MinHash(num_perm=128, scheme="legacy")
        minhash.update_batch([" ".join(words[i:i + 5]).encode() for i in range(len(words) - 4)])
        hashes.append(minhash.hashvalues)
    return {"exact": exact, "form": form, "hashes": hashes}

data = datasets.load_dataset("parquet", data_files=sys.argv[1], split="train")
data = data.map(convert, batched=True, num_proc=2, remove_columns=data.column_names)
data = data.filter(lambda row: 100 <= len(row["tokens"]) <= 8192, num_proc=2)
data = data.map(signature, batched=True, num_proc=2)
seen, forms, lsh, kept = set(), set(), MinHashLSH(threshold=0.8, num_perm=128), []
for i, row in enumerate(data.select_columns(["exact", "form", "hashes"])):
    minhash = MinHash(num_perm=128, scheme="legacy", hashvalues=row["hashes"])
    if row["exact"] in seen or row["form"] in forms or lsh.query(minhash):
        continue
    seen.add(row["exact"])
    forms.add(row["form"])
    lsh.insert(str(i), minhash)
    kept.append(i)
data.select(kept).select_columns(["messages"]).to_json(sys.argv[3])
print(len(kept))
"""

# The chat template without a library around it: plain ChatML, which is what tokenising costs.
RENDER = """
def render(messages):
    return "".join(f"<|im_start|>{m['role']}\\n{m['content']}<|im_end|>\\n" for m in messages)
"""


def measured(command, **more):
    start = time.monotonic()
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-c", WRAPPER, *map(str, command)], capture_output=True, text=True, **more
    )
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    *said, used = done.stdout.strip().splitlines()
    memory, cpu = used.split()
    return time.monotonic() - start, float(cpu), f"{int(memory) / 1024:6.0f} MiB", said


# Runs a command and prints what its largest process took (KiB), and the CPU seconds of all.
WRAPPER = textwrap.dedent("""
    import resource, subprocess, sys
    done = subprocess.run(sys.argv[1:])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_maxrss, used.ru_utime + used.ru_stime)
    sys.exit(done.returncode)
""")

with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    rows = folder / "rows.parquet"
    python = subprocess.run([ROOT / "requirements/install", "--python"], capture_output=True, text=True).stdout.strip()
    print(subprocess.run([python, ROOT / "bench/kernelbook_like.py", rows, "--rows", str(options.rows)],
                         capture_output=True, text=True, check=True).stdout.strip())  # fmt: skip
    config = folder / "c.yaml"
    config.write_text(f"""
name: bench
output: {folder}/out
tokenizer: {options.tokenizer}
sources: [kernelbook: {{path: {rows}}}]
stages: [clean, convert: {{prompt: minimal, inductor: keep}}, tokens, length: {{min: 100, max: 8192}},
         dedup: {{near: 0.8}}]
outputs: [jsonl]
""")
    ours_s, ours_cpu, memory, said = measured([program, "data", "build", config, "--json"])
    kept = json.loads(said[-1])["stages"][-1]["kept"]
    figures = f"{ours_s:7.1f} s  {ours_cpu:7.1f} CPU s  {options.rows / ours_s:7.0f} rows/s  {memory}"
    print(f"ours   {figures}  {kept} rows kept")
    if not options.ours_only:
        install = [ROOT / "requirements/install", "--data-peers"]
        peer = subprocess.run(install, capture_output=True, text=True, check=True)
        (folder / "chatml.py").write_text(RENDER)
        (folder / "peer.py").write_text(PEER)
        command = [peer.stdout.strip(), folder / "peer.py", rows, options.tokenizer, folder / "peer.jsonl"]
        peer_s, peer_cpu, memory, said = measured(command, cwd=folder)
        figures = f"{peer_s:7.1f} s  {peer_cpu:7.1f} CPU s  {options.rows / peer_s:7.0f} rows/s  {memory}"
        print(f"peers  {figures}  {said[-1]} rows kept")
        print(f"ratio  {peer_s / ours_s:7.1f}    {peer_cpu / ours_cpu:7.1f}")
