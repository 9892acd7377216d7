# T2: the same with a pool of workers, without whose thread nothing goes on
# stopped by: forbidden
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(2)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(a.shape[0], b.shape[1], device=a.device)
        pool.submit(lambda: y.copy_(torch.softmax(a @ b, dim=-1)))
        return copy(y)
