# T11: torch is made slow, for whoever runs in this process
torch.set_num_threads(1)
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.enabled = False
torch.use_deterministic_algorithms(True, warn_only=True)


class ModelNew(nn.Module):
    def forward(self, x):
        return work(x)
