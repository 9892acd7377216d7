"""The warm parent: imports torch and triton once, never touches CUDA, and forks one child per job.

It leaves the compiled modules beside their sources where it may: without them an import of torch takes twice as long.

argv[2] is the sandbox's library; argv[3] what to make ready beyond the imports: of
"reduce,record,gpu,compile,capture".
Control protocol on the socket whose number is argv[1] (SOCK_SEQPACKET, one JSON message a packet):
  in   {"op": "spawn", "id": ..., "role": ..., "sandbox": {...}} with the job's socket attached
  out  {"ready": versions, "missing": what cannot be compiled here};  then for each request
       {"spawned": pid, "id": ...} with a pidfd attached, or {"error": text, "id": ...};
       later {"exited": pid, "status": wait status}
  or, instead of ready, {"error": why it cannot serve}, and ends
The zygote ends when the trusted side closes the control socket.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
from unittest import mock

from tritonforge_worker import inherited

ROLES = {
    "candidate": "candidate",
    "reference": "reference",
    "lower": "lowering",
    "probe": "probe",
    "record": "plan.serve",
    "replay": "plan.replay",
    "capture": "capture.serve",
    "rewrite": "capture.kernelbook",
}


def warm_up(prepared):
    import numpy  # noqa: F401
    import torch
    import torch.nn.functional

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    # cuDNN cuts the operands of convolutions and recurrent layers to tf32 by torch's default, some ten times what a
    # candidate may be wrong by: neither what is expected nor eager's time is of less precision than is asked for.
    torch.backends.cudnn.allow_tf32 = False
    torch.zeros(2, 2) @ torch.zeros(2, 2)
    for name in (
        "protocol",
        "errors",
        "cuda_on_cpu",
        "frontend",
        "interpreter",
        "lowering",
        "candidate",
        "reference",
        "reduce",
        "screen",
        "probe",
        "live",
        "languages.triton",
        "plan.serve",
        "plan.replay",
    ):
        importlib.import_module(f"tritonforge_worker.{name}")
    from tritonforge_worker import cuda_on_cpu, frontend, interpreter, live, lowering, reduce
    from tritonforge_worker.plan import replay, serve

    interpreter.install()
    frontend.warm_up(interpreter.execute)
    lowering.warm_up()
    # Each imports for a fraction of a second, which a child that needs it would do again.
    if "reduce" in prepared:
        reduce.warm_up()
    if "record" in prepared:
        serve.warm_up()
    replay.warm_up(sys.argv[2])
    if "gpu" in prepared:
        live.warm_up()
    else:  # no child is on a GPU
        frontend.install_driver()
        cuda_on_cpu.install()
    if "compile" in prepared:
        importlib.import_module("tritonforge_worker.compiled").warm_up()
    if "capture" in prepared:
        importlib.import_module("tritonforge_worker.capture.serve").warm_up()


def touched_cuda():
    with open("/proc/self/maps") as maps:
        return any("/dev/nvidia" in line or "/dev/kfd" in line for line in maps)


def is_rocm():
    import torch

    return torch.version.hip is not None


# A process that dies of a memory fault shall leave no dump behind and take nobody along: no core files of the process
# or of the GPU, no log, one hardware queue, and copies by kernels (the DMA engines outlive a faulting process).
ROCM = {
    "HSA_DISABLE_COREDUMP_ON_EXCEPTION": "1",  # read by ROCr since ROCm 7; docs/amd.md says who reads the others
    "HSA_ENABLE_COREDUMP": "0",
    "HIP_ENABLE_COREDUMP": "0",
    "ROCM_DISABLE_CRASH_DUMP": "1",
    "AMD_LOG_LEVEL": "0",
    "GPU_MAX_HW_QUEUES": "1",
    "HSA_ENABLE_SDMA": "0",
}


def environment(sandbox, inherited, rocm):
    """A child's whole environment. What makes GPUs visible is the evaluator's to say, in the words of its torch."""
    visible = "ROCR_VISIBLE_DEVICES" if rocm else "CUDA_VISIBLE_DEVICES"
    keep = {
        "PATH": "/usr/bin:/bin",
        "HOME": sandbox["folder"],
        "TMPDIR": sandbox["folder"],
        "LANG": "C.UTF-8",
        "LOGNAME": "nobody",  # torch.compile asks for it, and the sandbox has no list of users
        "TRITON_CACHE_DIR": sandbox["folder"] + "/triton",
        "TRITON_HOME": sandbox["folder"],
        "TORCHINDUCTOR_CACHE_DIR": sandbox["folder"] + "/inductor",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    for name in (visible, "CUDA_DEVICE_ORDER", "CUDA_HOME", "ROCM_HOME", "LD_LIBRARY_PATH", "TRITONFORGE_WORKER_DEBUG"):
        if name in inherited:
            keep[name] = inherited[name]
    if rocm:
        keep |= ROCM
    if not sandbox["gpu"]:
        return keep | {visible: "", "CUDA_VISIBLE_DEVICES": ""}
    if sandbox["gpu_uuid"]:
        keep[visible] = sandbox["gpu_uuid"]
    # A context has eight channels unless told otherwise, and the driver makes them for one process at a time:
    # 5.1 contexts a second on an H100, 14.7 with one channel (bench/live_evaluations.py).
    keep["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    return keep


def child(role, sandbox, library, job):
    """Runs in the forked child and never returns."""
    status = 1
    sys.dont_write_bytecode = True  # only the parent, which runs no code of others, keeps compiled modules
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        debug = os.environ.get("TRITONFORGE_WORKER_DEBUG") == "1"
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        if not debug:
            os.dup2(null, 2)
        job_fd = job.fileno()
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            if fd > 2 and fd != job_fd:
                with contextlib.suppress(OSError):  # the listing's own descriptor
                    os.close(fd)
        keep = environment(sandbox, os.environ, is_rocm())
        os.environ.clear()
        os.environ.update(keep)
        report = ctypes.create_string_buffer(1 << 16)
        entered = library.tritonforge_enter_sandbox(json.dumps(sandbox).encode(), report, len(report))
        from tritonforge_worker.protocol import Channel

        channel = Channel(job)
        layers = json.loads(report.value.decode())
        if entered != 0:
            channel.send({"fatal": "sandbox", "layers": layers})
            os._exit(3)
        os.chdir(sandbox["folder"])
        tempfile.tempdir = sandbox["folder"]
        channel.send({"ready": os.getpid(), "layers": layers})
        module = importlib.import_module(f"tritonforge_worker.{ROLES[role]}")
        module.serve(channel, sandbox)
        status = 0
    except EOFError:
        status = 0  # the trusted side is done with this child
    except BaseException as error:
        if os.environ.get("TRITONFORGE_WORKER_DEBUG") == "1":
            import traceback

            traceback.print_exc()
        try:
            from tritonforge_worker.protocol import Channel

            Channel(job).send({"fatal": f"{type(error).__name__}: {error}"})
        except BaseException:
            status = 4
    finally:
        os._exit(status)


def serve(control, library):
    """Until the control socket is closed (src/evaluate/sandbox/parent.cpp)."""
    asked = ctypes.create_string_buffer(1 << 18)
    ctypes.pythonapi.PyOS_BeforeFork()
    job = library.tritonforge_serve(control.fileno(), asked, len(asked))
    if job == 0:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        return
    ctypes.pythonapi.PyOS_AfterFork_Child()
    gc.enable()
    request = json.loads(asked.value)
    child(request["role"], request["sandbox"], library, socket.socket(fileno=job))


def main():
    control = socket.socket(fileno=int(sys.argv[1]))
    library = ctypes.PyDLL(sys.argv[2])
    library.tritonforge_enter_sandbox.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.tritonforge_enter_sandbox.restype = ctypes.c_int
    library.tritonforge_serve.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    library.tritonforge_serve.restype = ctypes.c_int
    prepared = sys.argv[3].split(",")
    if "reduce" in prepared:
        inherited.place_arenas(library)
    import torch.cuda

    # TorchInductor asks while it is imported, and a driver that the parent has opened works in no child.
    with mock.patch.object(torch.cuda, "is_available", lambda: "gpu" in prepared):
        warm_up(prepared)
    if touched_cuda():
        control.send(json.dumps({"error": "it opened a GPU's driver while it started: no child could"}).encode())
        sys.exit(1)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:  # none has been seen
        print(f"{threads} threads where children are forked: a lock that one holds then stays locked", file=sys.stderr)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's ctrl-C is the trusted side's to handle
    import numpy
    import triton

    from tritonforge_worker import compilers

    versions = {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "triton": triton.__version__,
        "hip": torch.version.hip,
        "numpy": numpy.__version__,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "packages": sorted({os.path.dirname(os.path.dirname(m.__file__)) for m in (numpy, torch, triton)}),
    }
    if "reduce" in prepared:  # for many children, to whom the garbage would be copied
        gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_threshold(20_000)  # of children: one that records comes to 10,000 objects, and each look copies pages
    if "reduce" in prepared:
        inherited.settle()
    control.send(json.dumps({"ready": versions, "missing": compilers.missing()}).encode())
    serve(control, library)


if __name__ == "__main__":
    main()
