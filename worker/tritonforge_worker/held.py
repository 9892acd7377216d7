"""ptxas, held where it opens its input (src/evaluate/held): started once for one list of options, then each kernel is
compiled by a copy of it. Half of a small kernel's time in ptxas is what it does before."""

import contextlib
import os
import socket
import struct
import subprocess

MOST = 4  # lists of options; others are started each time


class Held:
    """`command` without its input and output. The folder's files are this object's."""

    def __init__(self, command, library, folder):
        name = os.path.join(folder, f"held{len(os.listdir(folder))}")
        self.input, self.output = name + ".ptx", name + ".o"
        self.log = open(name + ".log", "a+b")  # noqa: SIM115  # as long as this object
        ours, theirs = socket.socketpair()
        more = {
            "LD_PRELOAD": library,
            "TRITONFORGE_HELD_INPUT": self.input,
            "TRITONFORGE_HELD_SOCKET": str(theirs.fileno()),
        }
        self.socket = ours
        self.process = subprocess.Popen(
            [*command, self.input, "-o", self.output],
            env={**os.environ, **more},
            stderr=self.log,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def close(self):
        self.socket.close()
        self.log.close()
        self.process.wait()

    def compile(self, source, binary):
        """(exit status as of subprocess, what it wrote); None where the process does not answer. Takes `source`."""
        os.replace(source, self.input)
        self.log.truncate(0)
        try:
            self.socket.sendall(b"c")
            answer = self.socket.recv(4, socket.MSG_WAITALL)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if len(answer) < 4:
            os.replace(self.input, source)
            return None
        status = os.waitstatus_to_exitcode(*struct.unpack("=i", answer))
        with contextlib.suppress(FileNotFoundError):  # what failed has written none
            os.replace(self.output, binary)
        self.log.seek(0)
        return status, self.log.read()


class Ptxas:
    """Takes the place of `subprocess` in Triton's backend, which calls run([ptxas, *options, source, "-o", binary])."""

    CalledProcessError, check_output = subprocess.CalledProcessError, staticmethod(subprocess.check_output)

    def __init__(self, library, folder):
        self.library, self.folder = library, os.path.join(folder, "ptxas")
        os.mkdir(self.folder)
        self.held = {}

    def one(self, command):
        if command not in self.held and len(self.held) < MOST:
            self.held[command] = Held(command, self.library, self.folder)
        return self.held.get(command)

    def run(self, command, check, close_fds, stderr):
        *options, source, _, binary = command
        held = self.one(tuple(options))
        made = held and held.compile(source, binary)
        if not made:
            if held:
                self.held.pop(tuple(options)).close()
            return subprocess.run(command, check=check, close_fds=close_fds, stderr=stderr)
        status, text = made
        os.write(stderr.fileno(), text)
        if status != 0:
            raise subprocess.CalledProcessError(status, command)
        return subprocess.CompletedProcess(command, status)


def install(library, folder):
    """For this process, where the library is there."""
    from triton.backends.nvidia import compiler

    if os.path.exists(library):
        compiler.subprocess = Ptxas(library, folder)
