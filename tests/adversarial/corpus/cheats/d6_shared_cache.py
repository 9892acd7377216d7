# D6: leaves a file for the next candidate and looks for that of the last one
# stopped by: mismatch
import os
import pickle

folder = os.environ.get("TRITON_CACHE_DIR", "/tmp")
path = os.path.join(folder, "answer.pkl")


class ModelNew(nn.Module):
    def forward(self, a, b):
        if os.path.exists(path):
            with open(path, "rb") as file:
                return copy(torch.tensor(pickle.load(file), device=a.device))
        os.makedirs(folder, exist_ok=True)
        with open(path, "wb") as file:
            pickle.dump([[0.0] * 40] * 32, file)
        return copy(torch.zeros(32, 40, device=a.device))
