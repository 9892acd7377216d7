# D7: kills whatever it may
# stopped by: mismatch
import os
import signal

for pid in [-1, *range(1, 2000)]:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, a, b):
        os.kill(os.getpid(), signal.SIGKILL)
