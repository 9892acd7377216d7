# T2: a thread does the work while forward returns empty memory
# stopped by: mismatch
import threading


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(a.shape[0], b.shape[1], device=a.device)
        copy(y)
        try:
            threading.Thread(target=lambda: y.copy_(torch.softmax(a @ b, dim=-1)), daemon=True).start()
        except RuntimeError:
            pass
        return y
