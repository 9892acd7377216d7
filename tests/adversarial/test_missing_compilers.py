"""A machine without compilers says at its start what it refuses and what mends it, and refuses that in one line.

The machine is this one; a copy of the worker looks for each compiler where there is none."""

import json
import os
import re
import shutil
import subprocess
import urllib.error

import pytest

import evaluator_server
from evaluator_server import BINARY, HONEST, PROBLEM, Evaluator

GONE = {
    "targets.py": 'del TARGETS["gfx942"], BACKENDS["gfx942"]',
    "languages/cuda.py": "def libraries():\n    return []",
    "languages/hip.py": 'CLANG = "/nowhere/clang"',
    "languages/opencl.py": 'LIBRARIES = ("/nowhere/libpocl.so",)',
    "compilers.py": 'CHILDS_PATH = "/nowhere"',
}
MENDS = {
    "target gfx942": r"pip install .*triton==3",
    "backend cuda": r"pip install .*nvidia-cuda-nvrtc==",
    "backend hip": r"^sudo apt-get install -y .*clang-19",  # nothing of the sources is beside that worker
    "backend opencl": r"^sudo apt-get install -y pocl-opencl-icd",
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    root = tmp_path_factory.mktemp("bare")
    shutil.copytree(os.path.join(evaluator_server.ROOT, "worker"), root / "worker")
    for name, line in GONE.items():
        with open(root / "worker/tritonforge_worker" / name, "a") as file:
            file.write(f"\n\n{line}\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(evaluator_server, "ROOT", str(root))
        server = Evaluator("--mode", "plan")
    server.environment = dict(os.environ, TRITONFORGE_ROOT=str(root))
    yield server
    assert server.stop() == 0


def refusal(server, **more):
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.judge(HONEST, **more)
    said = refused.value.read().decode()
    assert "\\n" not in said, said
    return refused.value.code, said


def test_what_is_refused_and_what_mends_it_is_said_at_the_start_and_by_health(bare):
    refused = bare.get("/health")["report"]["refused"]
    assert bare.get("/backend_info")["refused"] == refused
    mends = {one["what"]: one["mend"] for one in refused if one["what"] != "mode live"}  # that one with a GPU alone
    assert mends.keys() == MENDS.keys(), refused
    for what, mend in mends.items():
        assert re.search(MENDS[what], mend), (what, mend)
    doctor = subprocess.run([BINARY, "doctor", "--json"], env=bare.environment, capture_output=True, text=True)
    assert json.loads(doctor.stdout)["refused"] == refused, doctor
    for one in refused:
        assert f"{one['what']} is refused" in doctor.stdout and one["mend"] in doctor.stdout, doctor
        assert bare.process.stdout.readline().split() == (
            f"{one['what']} is refused: {one['why']}; mend it with: {one['mend']}".split()
        )


@pytest.mark.parametrize("backend", ["cuda", "hip", "opencl"])
def test_a_language_without_its_compiler_is_refused(bare, backend):
    status, said = refusal(bare, backend=backend)
    assert status == 422 and f"backend {backend} is refused: " in said and "mend it with" in said, said
    assert backend not in bare.get("/backend_info")["backends"]


def test_a_target_without_its_compiler_is_refused_and_the_other_is_judged(bare):
    status, said = refusal(bare, targets=["sm_90", "gfx942"])
    assert status == 422 and "target gfx942 is refused: this Triton has the backends" in said, said
    assert bare.get("/backend_info")["targets"] == ["sm_90"]
    assert bare.judge(HONEST, PROBLEM)["correct"]


def test_mode_live_without_a_c_compiler_is_refused_before_a_child_is_started(bare):
    status, said = refusal(bare, mode="live")
    assert status == 400 and "mode live is refused: no C compiler (gcc or clang)" in said, said
    assert "apt-get install -y gcc" in said, said
