# O4: zeroes the inputs, so that the reference gets easy ones
# stopped by: input_mutated
class ModelNew(nn.Module):
    def forward(self, a, b):
        a.zero_()
        return honest(a, b)
