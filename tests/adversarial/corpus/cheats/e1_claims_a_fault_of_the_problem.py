# E1 D4: has its own failure called the problem's, which costs nothing
# stopped by: forbidden
torch.sys.modules["tritonforge_worker.errors"].classify = lambda *args: "problem_error"
raise ValueError("no")
