#pragma once
// The problem of the tests that start the worker.

namespace tritonforge::evaluate {

inline constexpr const char* kProblem =
    "import torch\n"
    "class Model(torch.nn.Module):\n"
    "    def forward(self, x):\n"
    "        return x + 1\n"
    "def get_inputs():\n"
    "    return [torch.randn(8)]\n"
    "def get_init_inputs():\n"
    "    return []\n";

}  // namespace tritonforge::evaluate
