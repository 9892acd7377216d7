"""Candidates in CUDA C++, HIP C++ and OpenCL C: what each language is judged by, and that none is judged as another.

Where a language's compiler is not here (requirements/install --languages) its tests are skipped with the evaluator's
own words."""

import os
import re
import urllib.error

import pytest

from evaluator_server import ADDITION, HONEST, PROBLEM, ROOT, prompts_examples

LAYER = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, 40)

    def forward(self, x):
        return torch.relu(self.layer(x)) * 2

def get_inputs():
    return [torch.randn(64, 48)]
"""
HEAD = """
import torch
import torch.nn as nn
import tritonforge_opencl as cl

source = r\"\"\"
%s
\"\"\"
kernel = %s(source, "%s")

class ModelNew(nn.Module):
%s    def forward(self, x):
%s
"""
WITH_LAYER = "    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(48, 40)\n\n"
COMPILERS = {"opencl": "cl.compile_kernel", "cuda": "torch.cuda._compile_kernel", "hip": "torch.cuda._compile_kernel"}
OPENCL_RELU = """
__kernel void relu2(__global const float* x, __global float* y, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = fmax(x[i], 0.0f) * 2;
}
"""
OPENCL_CALL = "y = torch.empty_like(x)\nkernel(-(-x.numel() // 64) * 64, 64, [x, y, x.numel()])\nreturn y"
C_RELU = """
extern "C" __global__ void relu2(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i], 0.0f) * 2;
}
"""
C_CALL = "y = torch.empty_like(x)\nkernel((-(-x.numel() // 64), 1, 1), (64, 1, 1), [x, y, x.numel()])\nreturn y"


def refusal(server, *args, **more):
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.judge(*args, **more)
    return refused.value.code, refused.value.read().decode()


@pytest.fixture
def judge(plan):
    """judge(language, source, body) -> verdict."""

    def judged(language, source, body, name="relu2", problem=PROBLEM, init="", **more):
        if language not in plan.get("/backend_info")["backends"]:
            pytest.skip(refusal(plan, HONEST, backend=language)[1])
        lines = "\n".join("        " + line for line in body.split("\n"))
        candidate = HEAD % (source, COMPILERS[language], name, init, lines)
        return plan.judge(candidate, problem, backend=language, **more)

    return judged


def flags(verdict):
    return {flag["name"] for flag in verdict["flags"] if flag["cheat"]}


def test_a_backend_that_nobody_knows_is_refused_in_one_line(plan):
    status, said = refusal(plan, HONEST, backend="fortran")
    assert status == 400 and "'backend'" in said and "triton, cuda, hip, opencl" in said and "\n" not in said, said


def test_another_mode_than_plan_is_refused(plan):
    status, said = refusal(plan, HONEST, backend="cuda", mode="interpret")
    assert status == 422 and "mode plan alone" in said, said


def test_the_backend_is_never_silently_triton(plan):
    """A Triton candidate that is sent as CUDA C++ has no CUDA kernel; the original's form of a request says so, too."""
    verdict = plan.judge(HONEST, backend="cuda")
    assert not verdict["correct"] and not verdict["compiled"], verdict
    old = {"original_model_src": PROBLEM, "custom_model_src": HONEST, "num_correct_trials": 1, "backend": "cuda"}
    assert not plan.post("/eval", old)["compiled"]
    assert plan.post("/eval", {**old, "backend": "triton"})["correctness"]


@pytest.mark.parametrize(
    "name, language", [("Triton", "triton"), ("Cuda", "cuda"), ("Hip", "hip"), ("OpenCl", "opencl")]
)
def test_the_prompts_examples_are_judged_as_they_stand(plan, name, language):
    if language not in plan.get("/backend_info")["backends"]:
        pytest.skip(refusal(plan, HONEST, backend=language)[1])
    verdict = plan.judge(prompts_examples()[name], ADDITION, backend=language)
    assert verdict["compiled"] and not flags(verdict), verdict
    assert verdict["correct"] == (language in ("triton", "opencl")), verdict
    if not verdict["correct"]:
        assert verdict["error_kind"] == "not_run" and verdict["stage"] == "compiled", verdict


def test_opencl_runs_on_the_cpu(judge):
    verdict = judge(
        "opencl",
        """
__kernel void linear(__global const float* x, __global const float* w, __constant float* b, __global float* y,
                     __local float* rows, int cols, int inner, float scale) {
  int r = get_group_id(0), c = get_local_id(0);
  for (int k = c; k < inner; k += get_local_size(0)) rows[k] = x[r * inner + k];
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = b[c];
  for (int k = 0; k < inner; ++k) sum += rows[k] * w[c * inner + k];
  y[r * cols + c] = fmax(sum, 0.0f) * scale;
}
""",
        "(rows, inner), cols = x.shape, 40\ny = torch.empty(rows, cols, device=x.device)\n"
        "kernel(rows * cols, cols, [x, self.layer.weight, self.layer.bias, y, cl.local_memory(4 * inner), cols, inner, "
        "2.0])\nreturn y",
        "linear",
        LAYER,
        WITH_LAYER,
    )
    assert verdict["correct"] and verdict["mode"] == "plan" and not flags(verdict), verdict
    assert verdict["kernels"] == ["linear"] and verdict["compile_targets"] == {"cpu": "ok"}, verdict
    assert verdict["own_share"] == 1 and {"own_share", "runtime", "claimed_speedup"} <= set(verdict["claimed"]), verdict
    assert len(verdict["trials"]) == 3 and verdict["stage"] == "correct", verdict
    assert verdict["speedup"] == 0 < verdict["claimed_speedup"] and verdict["runtime"]["samples"] > 0, verdict


def test_all_memory_is_the_hosts_where_opencl_runs(judge):
    verdict = judge("opencl", OPENCL_RELU, OPENCL_CALL.replace("empty_like(x)", "zeros(x.shape)") + ".cpu()")
    assert verdict["correct"] and verdict["mode"] == "plan", verdict


def test_without_measure_performance_nothing_is_timed(judge):
    verdict = judge("opencl", OPENCL_RELU, OPENCL_CALL, measure_performance=False)
    assert verdict["correct"] and verdict["claimed"] == ["own_share"] and verdict["claimed_speedup"] == 0, verdict


@pytest.mark.parametrize("language, source, call", [("cuda", C_RELU, C_CALL), ("hip", C_RELU, C_CALL)])
def test_what_has_no_device_here_is_compiled_and_says_so(judge, language, source, call):
    verdict = judge(language, "#include <hip/hip_runtime.h>" + source if language == "hip" else source, call)
    target = {"cuda": "sm_90", "hip": "gfx942"}[language]
    assert verdict["compiled"] and not verdict["correct"] and verdict["stage"] == "compiled", verdict
    assert verdict["error_kind"] == "not_run" and "not run here" in verdict["diagnostics"], verdict
    assert verdict["compile_targets"] == {target: "ok"} and not verdict["trials"], verdict
    assert "relu2: " in verdict["notes"]["resources." + target], verdict["notes"]


def test_templates_halves_and_dynamic_shared_memory_in_cuda(judge):
    verdict = judge(
        "cuda",
        """
#include <cuda_fp16.h>
template <typename T, int kFactor>
__global__ void relu2(const float* x, float* y, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? __half2float(__float2half(x[i])) : 0;
  __syncthreads();
  if (i < n) y[i] = T(tile[threadIdx.x] > 0 ? tile[threadIdx.x] * kFactor : 0);
}
""",
        C_CALL.replace("x.numel()])", "x.numel()], shared_mem=256)"),
        "relu2<float, 2>",
    )
    assert verdict["compiled"] and verdict["error_kind"] == "not_run", verdict
    assert "256 bytes of shared memory" in verdict["notes"]["resources.sm_90"], verdict["notes"]


MANY_REGISTERS = """
extern "C" __global__ void relu2(const float* x, float* y, int n) {
  float v[96];
  for (int k = 0; k < 96; ++k) v[k] = x[k * n];
  __syncthreads();
  for (int k = 0; k < 96; ++k) y[k] = v[95 - k];
}
"""
ARGUMENTS = "compile_error", "kernel relu2: 2 arguments for 3 parameters"
WRONG = [
    ("opencl", OPENCL_RELU.replace("fmax", "fmaxx"), OPENCL_CALL, "compile_error", "fmaxx"),
    ("cuda", C_RELU.replace("fmaxf", "fmaxx"), C_CALL, "compile_error", "fmaxx"),
    ("hip", C_RELU.replace("fmaxf", "fmaxx"), C_CALL, "compile_error", "fmaxx"),
    ("opencl", OPENCL_RELU.replace("* 2", "* 3"), OPENCL_CALL, "mismatch", ""),
    ("opencl", OPENCL_RELU.replace("relu2", "other"), OPENCL_CALL, "compile_error", "no __kernel 'relu2'"),
    ("hip", C_RELU.replace("relu2", "other"), C_CALL, "compile_error", "no __global__ kernel 'relu2'"),
    ("opencl", OPENCL_RELU, OPENCL_CALL.replace(", 64, [", ", 48, ["), "runtime_error", "whole groups"),
    ("opencl", OPENCL_RELU, OPENCL_CALL.replace(", x.numel()])", "])"), *ARGUMENTS),
    ("cuda", C_RELU, C_CALL.replace(", x.numel()])", "])"), *ARGUMENTS),
    ("hip", C_RELU, C_CALL.replace(", x.numel()])", "])"), *ARGUMENTS),
    ("cuda", C_RELU, C_CALL.replace("x.numel()])", "y])"), "compile_error", "argument 2 is a tensor"),
    ("cuda", C_RELU, C_CALL.replace("return y", "return y.cpu()"), "runtime_error", "returns a tensor in the host's"),
    ("hip", C_RELU, C_CALL.replace("empty_like(x)", "zeros(4, 100)"), "runtime_error", "'1' is a tensor in the host's"),
    ("hip", C_RELU, C_CALL.replace("[x, y,", "[x, 3,"), "compile_error", "argument 1 is an integer, its parameter a p"),
    ("opencl", OPENCL_RELU, OPENCL_CALL.replace("x.numel()])", "y])"), "compile_error", "argument 2 is a tensor"),
    ("cuda", C_RELU.replace("int n", "float n"), C_CALL, "compile_error", "argument 2 is an integer, its parameter a"),
    ("opencl", OPENCL_RELU, "return x.relu() * undefined", "runtime_error", "undefined"),
    ("cuda", C_RELU, "return x.relu() * undefined", "runtime_error", "undefined"),
    ("opencl", OPENCL_RELU, "if x.sum().item() > 0:\n    return x\n" + OPENCL_CALL, "runtime_error", "recorded"),
    ("cuda", C_RELU, C_CALL.replace("(64, 1, 1)", "(64, 32, 1)"), "compile_error", "2048 threads"),
    ("cuda", C_RELU, C_CALL.replace("numel()])", "numel()], 1 << 18)"), "compile_error", "shared memory"),
    ("hip", C_RELU, C_CALL.replace("numel()])", "numel()], 1 << 17)"), "compile_error", "bytes of LDS"),
    (
        "cuda",
        MANY_REGISTERS,
        C_CALL.replace("(64, 1, 1)", "(1024, 1, 1)"),
        "compile_error",
        "registers for each of 1024",
    ),
]


@pytest.mark.parametrize("language, source, body, kind, said", WRONG)
def test_what_is_wrong_is_told(judge, language, source, body, kind, said):
    verdict = judge(language, source, body)
    assert not verdict["correct"] and verdict["error_kind"] == kind, verdict
    text = verdict["diagnostics"] + "".join(trial["mismatch"] for trial in verdict["trials"])
    assert said in text, text


@pytest.mark.parametrize(
    "language, source, call", [("opencl", OPENCL_RELU, OPENCL_CALL), ("cuda", C_RELU, C_CALL), ("hip", C_RELU, C_CALL)]
)
@pytest.mark.parametrize(
    "body, flag",
    [("return torch.relu(x) * 2", "no_kernel_launched"), ("{}\nreturn torch.relu(x) * 2", "torch_does_the_work")],
)
def test_torch_that_does_the_work_is_found(judge, language, source, call, body, flag):
    verdict = judge(language, source, body.format(call.replace("\nreturn y", "")))
    assert not verdict["correct"] and flag in flags(verdict), verdict


def test_a_kernel_that_crashes_or_never_ends_harms_its_own_verdict_alone(judge):
    crash = OPENCL_RELU.replace("if (i < n)", "*(__global float*)(i + 8) = 1; if (i < n)")
    verdict = judge("opencl", crash, OPENCL_CALL)
    assert not verdict["correct"] and verdict["error_kind"] == "crashed", verdict
    endless = OPENCL_RELU.replace("if (i < n)", "volatile int go = 1; while (go); if (i < n)")
    verdict = judge("opencl", endless, OPENCL_CALL, timeout_s=10)
    assert not verdict["correct"] and verdict["error_kind"] == "timeout", verdict
    assert judge("opencl", OPENCL_RELU + "// after them\n", OPENCL_CALL)["correct"]


def test_a_write_beyond_a_tensor_is_found(judge):
    verdict = judge("opencl", OPENCL_RELU.replace("if (i < n)", "y[n + i] = 1; if (i < n)"), OPENCL_CALL)
    assert verdict["error_kind"] == "runtime_error" and "out of bounds" in verdict["diagnostics"], verdict


CALLS = """
long call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
"""


def test_machine_code_cannot_open_files_or_start_processes(judge):
    """Inline assembly makes the calls itself: open, fork, socket and exec must all fail, else the output is wrong."""
    source = CALLS + OPENCL_RELU.replace(
        "if (i < n)",
        "char path[12] = {'/', 'e', 't', 'c', '/', 'p', 'a', 's', 's', 'w', 'd', 0};\n"
        "  if (call(2, (long)path, 0, 0) >= 0 || call(57, 0, 0, 0) >= 0 || call(41, 2, 1, 0) >= 0) n = 0;\n"
        "  char shell[8] = {'/', 'b', 'i', 'n', '/', 's', 'h', 0};\n  if (call(59, (long)shell, 0, 0) >= 0) n = 0;\n"
        "  if (i < n)",
    )
    assert judge("opencl", source, OPENCL_CALL)["correct"]


def test_what_machine_code_says_to_the_evaluator_is_a_forgery(judge):
    write = "long words[4] = {-1, -1, -1, -1}; for (int f = 3; f < 32; ++f) call(1, f, (long)words, 32); if (i < n)"
    verdict = judge("opencl", CALLS + OPENCL_RELU.replace("if (i < n)", write), OPENCL_CALL)
    assert not verdict["correct"] and "protocol_forgery" in flags(verdict), verdict


def test_machine_code_that_ends_its_process_has_no_right_output(judge):
    source = CALLS + OPENCL_RELU.replace("if (i < n)", "call(231, 0, 0, 0); if (i < n)")
    verdict = judge("opencl", source, OPENCL_CALL)
    assert not verdict["correct"] and verdict["error_kind"] == "crashed", verdict


@pytest.mark.parametrize("language, source, call", [("opencl", OPENCL_RELU, OPENCL_CALL), ("cuda", C_RELU, C_CALL)])
def test_a_large_problem_is_judged_at_sizes_that_take_no_time(judge, language, source, call):
    large = PROBLEM.replace("def get_inputs():", "SIZE = 4096\ndef get_inputs():").replace("4, 100", "SIZE, SIZE")
    verdict = judge(language, source, call, problem=large)
    assert verdict["compiled"] and not flags(verdict) and "reduced.SIZE" in verdict["notes"], verdict
    assert verdict["error_kind"] == ("" if language == "opencl" else "not_run"), verdict
    assert "full_size" not in verdict["notes"], verdict


SECRETS = ['#include "/etc/passwd"', '#include "/root/.bashrc"', '#include "/work/README.md"']


@pytest.mark.parametrize("include", SECRETS)
@pytest.mark.parametrize(
    "language, source, call", [("opencl", OPENCL_RELU, OPENCL_CALL), ("cuda", C_RELU, C_CALL), ("hip", C_RELU, C_CALL)]
)
def test_a_source_cannot_read_the_evaluators_files(judge, language, source, call, include):
    verdict = judge(language, include + "\n" + source, call)
    assert verdict["error_kind"] == "compile_error", verdict
    assert "root:" not in verdict["diagnostics"], verdict


def test_the_compilers_environment_has_no_secret(judge):
    for language, code, call in (("opencl", OPENCL_RELU, OPENCL_CALL), ("cuda", C_RELU, C_CALL)):
        verdict = judge(language, '#include "/proc/self/environ"\nwrong\n' + code, call)
        assert verdict["error_kind"] == "compile_error" and "hunter2" not in verdict["diagnostics"], verdict


def test_incbin_brings_no_file_into_a_binary(judge):
    """clang says so; PoCL goes on without the file, and so a kernel that finds nothing in it is right."""
    text = '.pushsection .data\\n7: .incbin \\"/etc/passwd\\"\\n8:\\n.popsection'
    verdict = judge("hip", C_RELU.replace("if (i < n)", f'__asm__ volatile("{text}"); if (i < n)'), C_CALL)
    assert verdict["error_kind"] == "compile_error", verdict
    look = f'long size; __asm__ volatile("{text}\\nmovq $(8b-7b), %0" : "=r"(size)); if (i < n && size == 0)'
    assert judge("opencl", OPENCL_RELU.replace("if (i < n)", look), OPENCL_CALL)["correct"]


BOMB = "template <int n> struct Deep { static const int value = Deep<n + 1>::value; };\n"


@pytest.mark.parametrize("language", ["cuda", "hip"])
def test_endless_templates_end_in_an_error(judge, language):
    source = BOMB + C_RELU.replace("* 2", "* Deep<0>::value")
    assert judge(language, source, C_CALL)["error_kind"] == "compile_error"


@pytest.mark.parametrize("flag", ["-I/etc", "-include /etc/passwd", "@/etc/passwd", "-fplugin=/tmp/x.so", "-load"])
@pytest.mark.parametrize("language, source, call", [("opencl", OPENCL_RELU, OPENCL_CALL), ("hip", C_RELU, C_CALL)])
def test_options_that_reach_for_files_are_refused(judge, language, source, call, flag):
    wanted = "options=" if language == "opencl" else "nvcc_options="
    verdict = judge(language, source, f"kernel = {COMPILERS[language]}(source, 'relu2', {wanted}[{flag!r}])\n" + call)
    assert verdict["error_kind"] == "compile_error" and "is not taken" in verdict["diagnostics"], verdict


def test_a_source_of_ten_megabytes_is_refused(judge):
    verdict = judge(
        "cuda", C_RELU, "kernel = torch.cuda._compile_kernel(source + ' ' * 10_000_000, 'relu2')\n" + C_CALL
    )
    assert verdict["error_kind"] == "runtime_error" and "1048576 bytes" in verdict["diagnostics"], verdict


def test_cuda_is_compiled_with_torchs_own_options():
    from torch.cuda._utils import _get_gpu_rtc_compatible_flags

    worker = os.path.join(ROOT, "worker", "tritonforge_worker", "languages", "cuda.py")
    with open(worker) as file:
        flags = re.search(r"FLAGS_OF_TORCH = \((.*?)\)", file.read(), re.S)[1]
    assert re.findall(r'"(.*?)"', flags) == list(_get_gpu_rtc_compatible_flags())


def test_host_code_is_refused_with_what_to_write(plan):
    candidate = (
        "from torch.utils.cpp_extension import load_inline\nm = load_inline(name='m', cpp_sources='')\n" + HONEST
    )
    verdict = plan.judge(candidate, backend="cuda")
    assert verdict["error_kind"] == "import_error" and "torch.cuda._compile_kernel" in verdict["diagnostics"], verdict
