"""CUDA C++ on a real GPU: what NVRTC compiled is replayed and timed as Triton's kernels are. Skipped without a GPU."""

import os
import shutil

import pytest

import test_languages
from evaluator_server import BINARY, Evaluator, repeated_sines

pytestmark = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA GPU here")

PROBLEM = repeated_sines(20)
SINES = """
__global__ void sines(const float* x, float* y, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i];
  for (int k = 0; k < 20; ++k) a = sinf(a) * factor;
  y[i] = a;
}
"""
CALL = (
    "y = torch.empty_like(x)\n"
    "kernel(grid=((x.numel() + 255) // 256, 1, 1), block=(256, 1, 1), args=[x, y, x.numel(), 2.0])\nreturn y"
)


@pytest.fixture(scope="module")
def server():
    if not os.path.exists(BINARY):
        pytest.skip(f"no binary at {BINARY}")
    server = Evaluator("--mode", "plan", "--device", "cuda:0", "--workers", "2")
    yield server
    assert server.stop() == 0


def judge(server, source=SINES, body=CALL, **more):
    lines = "\n".join("        " + line for line in body.split("\n"))
    candidate = test_languages.HEAD % (source, "torch.cuda._compile_kernel", "sines", "", lines)
    return server.judge(candidate, PROBLEM, backend="cuda", **more)


def test_an_honest_kernel_is_timed(server):
    verdict = judge(server)
    assert verdict["correct"] and verdict["stage"] == "timed" and not verdict["cheated"], verdict
    assert verdict["speedup"] > 1 and verdict["own_share"] == 1 and not verdict["claimed"], verdict
    assert verdict["profile"]["kernels"][0]["registers"] > 0, verdict


def test_blocks_of_three_sizes_and_dynamic_shared_memory(server):
    source = """
extern "C" __global__ void sines(const float* x, float* y, long long n) {
  extern __shared__ float tile[];
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  long long i = (long long)blockIdx.x * (blockDim.x * blockDim.y * blockDim.z) + t;
  tile[t] = i < n ? x[i] : 0;
  __syncthreads();
  float a = tile[t];
  for (int k = 0; k < 20; ++k) a = sinf(a) * 2;
  if (i < n) y[i] = a;
}
"""
    body = (
        "y = torch.empty_like(x)\nkernel.set_shared_memory_config(65536)\n"
        "kernel(((x.numel() + 255) // 256, 1, 1), (8, 8, 4), [x, y, x.numel()], 65536)\nreturn y"
    )
    assert judge(server, source, body, measure_performance=False)["correct"]


@pytest.mark.parametrize(
    "was, now, kind, said",
    [
        ("* factor", "* (factor + 1)", "mismatch", ""),
        ("y[i] = a;", "y[i + 64] = a;", "runtime_error", "out of bounds"),
        ("y[i] = a;", "y[(long long)i << 30] = a;", "runtime_error", "kernel sines"),
        ("float a = x[i];", "float a = x[i]; while (y[0] < 1e30f) __threadfence();", "runtime_error", "in time"),
        ("float factor)", "float factor, int more)", "compile_error", "4 arguments for 5 parameters"),
    ],
)
def test_what_is_wrong_is_told_and_stays_with_its_candidate(server, was, now, kind, said):
    verdict = judge(server, SINES.replace(was, now), timeout_s=30)
    assert not verdict["correct"] and verdict["error_kind"] == kind and said in verdict["diagnostics"], verdict
    assert judge(server, SINES + f"// after {was} {now}\n", measure_performance=False)["correct"]


def test_what_a_kernel_keeps_in_its_own_variables_is_gone_at_the_next_call(server):
    """An answer by its block's first input, in __device__ memory: a later call on the same inputs would be short."""
    source = """
__device__ float known[1 << 22];
__device__ float of[1 << 14];
__global__ void sines(const float* x, float* y, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  bool again = of[blockIdx.x] == x[blockIdx.x * blockDim.x];
  float a = x[i];
  if (again) a = known[i];
  else for (int k = 0; k < 20; ++k) a = sinf(a) * factor;
  __syncthreads();
  known[i] = a;
  if (threadIdx.x == 0) of[blockIdx.x] = x[i];
  y[i] = a;
}
"""
    honest, memo = judge(server), judge(server, source)
    assert honest["stage"] == memo["stage"] == "timed", (honest, memo)
    assert memo["runtime"]["median"] > 0.9 * honest["runtime"]["median"], (honest, memo)


def test_a_kernel_that_hangs_only_while_it_is_timed_is_ended(server):
    """In its trials what comes empty is poisoned, while it is timed it is not."""
    waits = "while (__float_as_int(y[i]) != 0x7fc00000) __threadfence();"
    hangs = SINES.replace("float a = x[i];", f"float a = x[i];\n  {waits}")
    verdict = judge(server, hangs, timeout_s=300)
    assert verdict["error_kind"] == "runtime_error", verdict
    assert "while it was timed: it did not end in time" in verdict["diagnostics"], verdict
    assert judge(server, SINES + "// after a hang in time\n", measure_performance=False)["correct"]


def test_hip_is_compiled_and_not_run_on_an_nvidia_gpu(server):
    if "hip" not in server.get("/backend_info")["backends"]:
        pytest.skip("clang 19 is not here")
    lines = "\n".join("        " + line for line in CALL.split("\n"))
    candidate = test_languages.HEAD % ('extern "C"' + SINES, "torch.cuda._compile_kernel", "sines", "", lines)
    verdict = server.judge(candidate, PROBLEM, backend="hip")
    assert verdict["error_kind"] == "not_run" and verdict["compile_targets"] == {"gfx942": "ok"}, verdict
