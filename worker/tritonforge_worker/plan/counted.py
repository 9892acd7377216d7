"""Process P as ncu starts it (src/evaluate/plan/profiler.h): replays what a file of frames asks, no candidate's code.

argv: the sandbox's library, beside which the replayer is; the file. Ends with 1 and says why where one is not answered.
"""

import socket
import struct
import sys
import threading

from tritonforge_worker.plan import replay
from tritonforge_worker.protocol import Channel


def frames_of(path):
    with open(path, "rb") as file:
        while head := file.read(12):
            header_bytes, payload_bytes = struct.unpack("<IQ", head)
            yield head + file.read(header_bytes) + file.read(payload_bytes)


def main():
    library, frames = sys.argv[1:]
    replay.warm_up(library)
    ours, theirs = socket.socketpair()
    threading.Thread(target=replay.serve, args=(Channel(theirs), {}), daemon=True).start()
    answers = Channel(ours)
    for frame in frames_of(frames):
        ours.sendall(frame)
        answer, _ = answers.receive()
        if "failed" in answer:
            sys.exit(f"the replayer: {answer['failed']['text'][:300]}".replace("\n", " "))


if __name__ == "__main__":
    main()
