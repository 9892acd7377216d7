"""The evaluator's worker by itself, where a server on a CPU cannot show it."""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(ROOT / "worker"), str(ROOT / "tests/adversarial")]
import evaluator_server

CODE = """
import torch
LIMITS_BEFORE_THE_CODE = list(torch.cuda.limits)
class ModelNew:
    def __init__(self):
        assert LIMITS_BEFORE_THE_CODE == [0.25], LIMITS_BEFORE_THE_CODE
    def __call__(self, x):
        return x
"""


class Channel:
    def __init__(self):
        self.sent = []

    def send(self, header, payload=()):
        self.sent.append(header)


def load(tmp_path, device_memory):
    from tritonforge_worker.candidate import Candidate

    channel = Channel()
    candidate = Candidate(channel, {"folder": str(tmp_path), "gpu": True, "device_memory": device_memory})
    request = {"source": CODE, "sizes": {}, "tensors": [], "init": {"list": []}, "state": [], "seed": 1, "targets": []}
    candidate.load(request, memoryview(b""))
    return channel.sent[-1]


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr(torch.cuda, "limits", [], raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", torch.cuda.limits.append)
    return torch.cuda.limits


def test_a_candidate_has_its_limit_of_device_memory_before_its_code_runs(tmp_path, limits):
    assert load(tmp_path, 0.25) == {"stage": "built", "own_weights": []}
    assert limits == [0.25]


def test_without_a_limit_the_device_is_left_as_it_is(tmp_path, limits):
    assert "AssertionError: []" in load(tmp_path, 0)["failed"]["text"]


def test_what_flushes_the_l2_is_read_and_not_written():
    from tritonforge_worker import live

    memory, total = torch.ones(1000), torch.empty(())
    written = memory._version
    live.flush(memory, total)
    assert total == 1000 and memory._version == written


def test_the_parent_keeps_compiled_modules_for_the_next_start(tmp_path):
    """Half of an import's time is the compilation of its sources: torch's, Triton's and our own."""
    shutil.copytree(ROOT / "worker", tmp_path / "worker", ignore=shutil.ignore_patterns("__pycache__"))
    candidate = tmp_path / "candidate.py"
    candidate.write_text(evaluator_server.HONEST)
    problem = tmp_path / "problem.py"
    problem.write_text(evaluator_server.PROBLEM)
    said = subprocess.run(
        [evaluator_server.BINARY, "evaluate", "--problem", problem, "--candidate", candidate],
        env=dict(os.environ, TRITONFORGE_ROOT=str(tmp_path), PYTHONDONTWRITEBYTECODE="1"),  # of other programs
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said
    kept = {file.name.split(".")[0] for file in (tmp_path / "worker").rglob("*.pyc")}
    assert {"candidate", "reference", "interpreter"} & kept, kept


@pytest.mark.parametrize("prepared", ["reduce,record,gpu,compile", ",,,,capture"])
def test_the_parent_starts_without_a_word_to_a_gpus_driver(prepared):
    """What it has opened works in no child. Without a GPU here the driver is not asked either."""
    started = """
import runpy, socket, sys, torch

def driver(*_):
    raise AssertionError("a driver was asked")

torch._C._cuda_getDeviceCount = torch._C._cuda_init = driver
ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours.shutdown(socket.SHUT_WR)  # it ends once it is ready
sys.argv[1:] = [str(its.detach()), *sys.argv[1:]]
runpy.run_module("tritonforge_worker.zygote", run_name="__main__", alter_sys=True)
print(ours.recv(1 << 16).decode())
"""
    library = pathlib.Path(evaluator_server.BINARY).parent / "libtritonforge_sandbox.so"
    said = subprocess.run(
        [sys.executable, "-c", started, library, prepared],
        env=dict(os.environ, PYTHONPATH=str(ROOT / "worker")),
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0 and '"ready"' in said.stdout, said


def test_where_torch_is_a_rocm_build_no_process_dumps_and_each_sees_its_own_gpu():
    from tritonforge_worker import zygote

    inherited = {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "GPU-1,GPU-2", "SECRET": "hunter2"}
    granted = zygote.environment({"folder": "/job", "gpu": True, "gpu_uuid": "GPU-2"}, inherited, rocm=True)
    assert granted["ROCR_VISIBLE_DEVICES"] == "GPU-2" and "CUDA_VISIBLE_DEVICES" not in granted
    for name in ("HSA_ENABLE_COREDUMP", "HIP_ENABLE_COREDUMP", "AMD_LOG_LEVEL"):
        assert granted[name] == "0"
    assert granted["GPU_MAX_HW_QUEUES"] == "1" and "SECRET" not in granted
    denied = zygote.environment({"folder": "/job", "gpu": False, "gpu_uuid": ""}, inherited, rocm=True)
    assert denied["ROCR_VISIBLE_DEVICES"] == ""
    on_nvidia = zygote.environment({"folder": "/job", "gpu": True, "gpu_uuid": ""}, inherited, rocm=False)
    assert on_nvidia["CUDA_VISIBLE_DEVICES"] == "0" and "AMD_LOG_LEVEL" not in on_nvidia


def test_a_rocm_child_gets_the_variables_that_the_document_lists():
    """docs/amd.md: what its table says is set by us is set, and nothing else of that kind is."""
    from tritonforge_worker import zygote

    rows = [line.split("|")[1:-1] for line in (ROOT / "docs/amd.md").read_text().splitlines() if line.startswith("| `")]
    listed = {}
    for names, values, _, ours in rows:
        if ours.strip().startswith("yes"):
            listed |= dict(zip(re.findall("`([A-Z_]+)`", names), values.replace(" ", "").split(",")))
    visible = listed.pop("ROCR_VISIBLE_DEVICES")
    assert visible == "theGPU'sUUID"
    assert listed == zygote.ROCM
    child = zygote.environment({"folder": "/job", "gpu": True, "gpu_uuid": "GPU-7"}, {}, rocm=True)
    assert {name: child[name] for name in listed} == listed
    assert child["ROCR_VISIBLE_DEVICES"] == "GPU-7"


def test_registers_that_no_simd_has_are_refused_and_spilled_ones_told():
    from triton.runtime.errors import OutOfResources

    from tritonforge_worker import lowering

    taken = {".vgpr_count": 256, ".agpr_count": 128, ".vgpr_spill_count": 3}
    told = "256 VGPRs and AGPRs (128 AGPRs), 12 bytes a lane spilled, 4096 bytes of LDS"
    assert lowering.resources_of(taken, 8, 4096) == told
    lowering.resources_of({**taken, ".vgpr_count": 512}, 4, 0)
    for registers, waves in ((513, 4), (257, 8), (129, 16)):
        with pytest.raises(OutOfResources, match="vector registers"):
            lowering.resources_of({**taken, ".vgpr_count": registers}, waves, 0)


@triton.jit
def fused(x, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(x + i, tl.load(x + i) * 3.0 + tl.load(x + i + SIZE))


@triton.jit
def unknown_instruction(x):
    tl.store(
        x, tl.inline_asm_elementwise("nonsense $0, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1)
    )


def ir_of(kernel, dtype=torch.float32, **more):
    from tritonforge_worker import frontend

    return frontend.lower_to_ir(kernel, "sm_90", (torch.zeros(16, dtype=dtype),), more)


@pytest.fixture
def ptxas(tmp_path):
    """(what holds ptxas in the place of Triton's `subprocess`, the module that has it)."""
    from triton.backends.nvidia import compiler

    from tritonforge_worker import held

    library = pathlib.Path(evaluator_server.BINARY).parent / "libtritonforge_held.so"
    if not library.exists():
        pytest.skip(f"no {library}")
    made = held.Ptxas(str(library), str(tmp_path))
    yield made, compiler
    for one in made.held.values():
        one.close()


def sections(elf):
    """Without those for debuggers, which name the compiler's input file."""
    (at,), (size, count, names) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<3H", elf, 58)
    headers = [struct.unpack_from("<2I4Q2I2Q", elf, at + k * size) for k in range(count)]
    text = headers[names][4]
    named = {
        elf[text + name : elf.index(b"\0", text + name)]: elf[start : start + n]
        for name, kind, _, _, start, n, *_ in headers
        if kind != 8
    }
    return {name: data for name, data in named.items() if b"debug" not in name and name.startswith((b".text", b".nv"))}


def cubin(text, folder, **options):
    """How it is launched, and its machine code."""
    from tritonforge_worker import lowering

    described, binary = lowering.lower(text, "sm_90", options, folder)
    return described, sections(binary)


def test_a_held_ptxas_compiles_as_one_that_is_started_for_each_kernel(ptxas, tmp_path, monkeypatch):
    made, compiler = ptxas
    cases = [(ir_of(fused, SIZE=size), contracted) for size in (16, 32, 64) for contracted in (True, False)]
    plain = [cubin(text, tmp_path, enable_fp_fusion=contracted) for text, contracted in cases]
    assert len({str(code) for _, code in plain}) == len(cases)
    monkeypatch.setattr(compiler, "subprocess", made)
    assert [cubin(text, tmp_path, enable_fp_fusion=contracted) for text, contracted in cases] == plain
    assert len(made.held) == 2 and all(one.process.poll() is None for one in made.held.values())


def test_what_a_held_ptxas_refuses_is_told_and_leaves_it_as_it_was(ptxas, tmp_path, monkeypatch, capsys):
    from triton.runtime.errors import PTXASError

    made, compiler = ptxas
    monkeypatch.setattr(compiler, "subprocess", made)
    right, wrong = ir_of(fused, SIZE=16), ir_of(unknown_instruction, torch.int32)
    before = cubin(right, tmp_path)
    with pytest.raises(PTXASError, match="Not a name of any known instruction: 'nonsense'"):
        cubin(wrong, tmp_path)
    (held,) = made.held.values()
    assert cubin(right, tmp_path) == before and held.process.poll() is None
    assert not os.path.exists(held.output), "what one kernel left must not be taken for the next one's"


def test_where_a_held_ptxas_was_killed_the_kernel_is_compiled_all_the_same(ptxas, tmp_path, monkeypatch):
    made, compiler = ptxas
    monkeypatch.setattr(compiler, "subprocess", made)
    text = ir_of(fused, SIZE=16)
    before = cubin(text, tmp_path)
    (held,) = made.held.values()
    held.process.kill()
    held.process.wait()
    assert cubin(text, tmp_path) == before and not made.held
    assert cubin(text, tmp_path) == before and len(made.held) == 1, "another one is held"


def test_what_a_hint_says_is_there():
    from tritonforge_worker import hints

    said = [*hints.NAMES.values(), *(text for _, text in hints.SAID)]
    for module, name in re.findall(r"\b(tl|libdevice)\.([a-z]\w*)", "\n".join(said)):
        assert hasattr(tl if module == "tl" else hints.libdevice, name), f"{module}.{name}"
    for name in hints.NAMES:
        assert not hasattr(tl, name), f"tl.{name} is there"


class Straight(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


class Broken(torch.nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(y)


@pytest.mark.parametrize("module, graphs", [(Straight(), 1), (Broken(), 2)])
def test_torch_compiles_version_computes_nothing_until_it_is_wanted(monkeypatch, module, graphs):
    from tritonforge_worker.compiled import Compiled

    done = []

    def backend(graph, inputs):
        done.append("compiled")

        def run(*args):
            done.append("ran")
            return graph(*args)

        return run

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: backend)
    torch._dynamo.reset()
    version, x = Compiled(module), torch.randn(3)
    version.prepare(x)
    assert done == ["compiled"]
    for _ in range(2):
        assert torch.equal(version(x), module(x))
    assert done.count("compiled") == graphs and done.count("ran") == 2 * graphs


def test_what_torch_cannot_compile_says_so_and_is_tried_anew(monkeypatch):
    from tritonforge_worker.live import Timer

    def backend(graph, inputs):
        raise RuntimeError("no such operation")

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: backend)
    torch._dynamo.reset()
    timer = Timer(types.SimpleNamespace(model=Straight(), channel=Channel()))
    timer.pool = [(torch.randn(3),)]
    timer.compile({"op": "compile"}, b"")
    assert "no such operation" in timer.role.channel.sent[-1]["unavailable"]
    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: lambda graph, inputs: graph)
    timer.compile({"op": "compile"}, b"")
    assert timer.role.channel.sent[-1] == {"compiled": True}
