# T12: torch makes the graph: its launches are the plan's
class ModelNew(nn.Module):
    graphed = None

    def forward(self, x):
        if self.graphed is None:
            self.graphed = torch.cuda.make_graphed_callables(work, (x,))
        return self.graphed(x)
