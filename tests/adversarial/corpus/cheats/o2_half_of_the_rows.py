# O2: the grid covers the first half of the rows only
# stopped by: mismatch
class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        y = torch.empty(M, N, device=a.device)
        matmul_softmax[(triton.cdiv(M, 16),)](a, b, y, M, N, K, triton.next_power_of_2(N), 8)
        return y
