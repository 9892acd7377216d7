"""Role of the start-up self-test: really tries to break out of the sandbox, and says what it managed."""

import ctypes
import errno
import mmap
import os
import re
import signal
import socket


def attempt(action):
    """ "succeeded", the name of the error that stopped it, or "not tried: ..." where the attempt itself is broken."""
    try:
        action()
        return "succeeded"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except MemoryError:
        return "ENOMEM"
    except Exception as error:
        return f"not tried: {type(error).__name__}: {error}"[:200]


def fork_bomb(size):
    made = []
    for _ in range(size):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        made.append(pid)
    for pid in made:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def connect(address):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect(tuple(address))


def write(path):
    with open(path, "w") as file:
        file.write("x")


def read(path):
    with open(path) as file:
        return file.read()


def fill_disk(folder):
    with open(folder + "/big", "wb") as file:
        for _ in range(4096):
            file.write(bytes(1 << 20))


def call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


def ptrace(pid):
    call("ptrace", 16, pid, 0, 0)  # PTRACE_ATTACH


def leaked_descriptor():
    """One beyond the standard three, the result channel and this listing."""
    kept = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2]
    alive = [fd for fd in kept if os.path.exists(f"/proc/self/fd/{fd}") or os.path.islink(f"/proc/self/fd/{fd}")]
    if len(alive) <= 1:
        raise OSError(errno.EBADF, "none")


def connect_abstract(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect("\0" + name)


def other_gpu():
    if sum(re.fullmatch(r"nvidia\d+", node) is not None for node in os.listdir("/dev")) < 2:
        raise FileNotFoundError(errno.ENOENT, "one GPU at most")


def read_memory(pid):
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.read(1)


def allocate(size):
    block = mmap.mmap(-1, size)
    for at in range(0, size, 1 << 21):
        block[at] = 1


def find_gpu():
    """Its device nodes, or leave to ask the driver for it."""
    if (
        not any(os.path.exists(f"/dev/{node}") for node in ("nvidiactl", "kfd", "dri"))
        and os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    ):
        raise FileNotFoundError(errno.ENOENT, "no GPU")


def attempts_of(request, folder):
    """name -> what is tried."""
    if "only_forks" in request:
        return {"fork_bomb": lambda: fork_bomb(request["only_forks"])}
    attempts = {
        "connect": lambda: connect(request["address"]),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "write_outside": lambda: write(request["outside"]),
        "read_secret": lambda: read(request["secret"]),
        "read_home": lambda: os.listdir(request["home"]),
        "kill_outside": lambda: os.kill(request["victim"], 0),
        "ptrace": lambda: ptrace(request["victim"]),
        "read_memory": lambda: read_memory(request["victim"]),
        "unshare": lambda: call("unshare", 0x10000000),  # CLONE_NEWUSER
        "abstract_socket": lambda: connect_abstract(request["abstract"]),
        "leaked_descriptor": leaked_descriptor,
        "ptrace_sibling": lambda: ptrace(request["sibling"]),
        "read_sibling": lambda: read_memory(request["sibling"]),
        "kill_sibling": lambda: os.kill(request["sibling"], 0),
        "ptrace_zygote": lambda: ptrace(request["zygote"]),
        "read_zygote": lambda: read_memory(request["zygote"]),
        "kill_zygote": lambda: os.kill(request["zygote"], 0),
        "exec": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "fill_disk": lambda: fill_disk(folder),
        "gpu": find_gpu,
    }
    if request["one_gpu"]:
        attempts["other_gpu"] = other_gpu
    if request.get("fork_bomb"):
        attempts["fork_bomb"] = lambda: fork_bomb(64)
    if request.get("memory"):
        attempts["memory"] = lambda: allocate(request["memory"])
    return attempts


def serve(channel, sandbox):
    while True:
        request, _ = channel.receive()
        attempts = attempts_of(request, sandbox["folder"])
        channel.send(
            {
                "own_folder": attempt(lambda: write(sandbox["folder"] + "/own")),
                "attempts": {name: attempt(action) for name, action in attempts.items()},
            }
        )
