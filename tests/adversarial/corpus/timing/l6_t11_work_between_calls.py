# L6 T11: a thread that multiplies whenever nobody calls: it runs while the reference is timed
# stopped by: forbidden
import threading
import time


class ModelNew(nn.Module):
    last = 0.0

    def __init__(self):
        super().__init__()
        threading.Thread(target=self.disturb, daemon=True).start()

    def disturb(self):
        a = torch.randn(8192, 8192, device="cuda")
        while True:
            if time.monotonic() - self.last > 0.005:
                a @ a

    def forward(self, x):
        self.last = time.monotonic()
        return work(x)
