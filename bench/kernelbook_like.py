"""A stand-in for KernelBook: rows of its columns and size (about 10 KB), made up here. Nothing of it is there.
usage: kernelbook_like.py FILE.parquet [--rows 18200] [--seed 1] [--printed]

The solutions look like what torch.compile writes: a few kernels of generated names, loads, masks and arithmetic, and a
wrapper. One row in twenty is an earlier one again, one in fifty an earlier one with a few numbers changed. They do not
run. With --printed they do: each row is of kernelbook_printed.py, in KernelBook's exact form (0.3 s a row), and none
comes twice."""

import argparse
import random

import plain_errors
import pyarrow
import pyarrow.parquet

OPERATORS = ["relu", "sigmoid", "tanh", "exp", "log1p", "sqrt", "abs", "gelu", "silu", "softplus"]
WORDS = ["hidden", "encoder", "decoder", "attention", "residual", "gate", "project", "scale", "shift", "pool", "norm"]


def module(draw, name):
    chain = [draw.choice(OPERATORS) for _ in range(draw.randint(2, 9))]
    fields = [f"{draw.choice(WORDS)}_{i}" for i in range(len(chain))]
    lines = [
        "import torch",
        "import torch.nn as nn",
        "import torch.nn.functional as F",
        "",
        "",
        f"class {name}(nn.Module):",
    ]
    lines += ["", "    def __init__(self, dim, scale=1.0):", f"        super({name}, self).__init__()"]
    lines += [f"        self.{field} = nn.Linear(dim, dim)" for field in fields]
    lines += ["        self.scale = scale", "", "    def forward(self, x):"]
    lines += [
        f"        x = torch.{op}(self.{field}(x)) * {draw.randint(1, 99)} / self.scale"
        for op, field in zip(chain, fields)
    ]
    size = draw.choice([4, 8, 16, 64])
    lines += [
        "        return x",
        "",
        "",
        "def get_inputs():",
        f"    return [torch.rand([{size}, {size}, 4, 4])]",
        "",
        "",
    ]
    lines += ["def get_init_inputs():", f"    return [[], {{'dim': {size}}}]"]
    return "\n".join(lines) + "\n", chain


def kernel(draw, index, operators):
    name = f"triton_poi_fused_{'_'.join(operators)}_{index}"
    lines = ["@triton.jit", f"def {name}(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):"]
    lines += [f"    xnumel = {draw.randint(16, 1 << 20)}", "    xoffset = tl.program_id(0) * XBLOCK"]
    lines += ["    xindex = xoffset + tl.arange(0, XBLOCK)[:]", "    xmask = xindex < xnumel"]
    lines += [
        f"    x0 = xindex % {draw.randint(2, 512)}",
        "    x1 = xindex",
        "    tmp0 = tl.load(in_ptr0 + (x1), xmask)",
    ]
    for i in range(1, draw.randint(25, 60)):
        a, b = draw.randrange(i), draw.randrange(i)
        lines.append(
            draw.choice(
                [
                    f"    tmp{i} = tmp{a} {draw.choice('+-*/')} tmp{b}",
                    f"    tmp{i} = tl.load(in_ptr1 + ({draw.randint(0, 99)} + x0), xmask, other=0.0)",
                    f"    tmp{i} = triton_helpers.maximum(tl.full([1], {draw.randint(0, 9)}, tl.int32), tmp{a})",
                    f"    tmp{i} = libdevice.{draw.choice(operators)}(tmp{a})",
                ]
            )
        )
    lines.append(f"    tl.store(out_ptr0 + (x1), tmp{draw.randrange(i)}, xmask)")
    return name, "\n".join(lines) + "\n"


def row(draw, number):
    name = "".join(word.title() for word in draw.sample(WORDS, 2)) + str(number)
    problem, chain = module(draw, name)
    kernels = [kernel(draw, i, draw.sample(chain, min(2, len(chain)))) for i in range(draw.randint(2, 5))]
    text = "import torch\nimport triton\nimport triton.language as tl\n"
    text += "from torch._inductor.runtime import triton_helpers\n"
    text += "from torch._inductor.runtime.triton_helpers import libdevice\nimport torch.nn as nn\n\n\n"
    text += "\n\n".join(body for _, body in kernels)
    text += "\n\ndef call(args):\n    primals_1, primals_2 = args\n    args.clear()\n"
    for index, (kernel_name, _) in enumerate(kernels):
        text += (
            f"    buf{index} = empty_strided_cuda((4, {draw.randint(1, 64)}, 4, 4), (64, 16, 4, 1), torch.float32)\n"
        )
        text += (
            f"    {kernel_name}[grid({draw.randint(64, 4096)})](primals_1, primals_2, buf{index}, 256, XBLOCK=256)\n"
        )
    text += f"    return (buf{len(kernels) - 1},)\n\n\nclass {name}New(nn.Module):\n\n"
    text += "    def __init__(self, dim, scale=1.0):\n        super().__init__()\n\n"
    text += "    def forward(self, input_0):\n        return call([input_0, self.weight])[0]\n"
    return {"python_code": problem, "triton_code": text, "entry_point": name}


plain_errors.use()
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("file")
parser.add_argument("--rows", type=int, default=18200)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--printed", action="store_true")
options = parser.parse_args()
if options.printed:
    from kernelbook_printed import printed_row as row
draw = random.Random(options.seed)
schema = pyarrow.schema(
    [
        *((name, pyarrow.string()) for name in ("python_code", "triton_code", "entry_point")),
        ("uuid", pyarrow.int64()),
        ("licenses", pyarrow.list_(pyarrow.string())),
        ("stars", pyarrow.int64()),
    ]
)
earlier, size = [], 0
with pyarrow.parquet.ParquetWriter(options.file, schema) as writer:
    rows = []
    for number in range(options.rows):
        if options.printed:
            new = row(draw, number)
        elif earlier and draw.random() < 0.05:
            new = dict(draw.choice(earlier))
        elif earlier and draw.random() < 0.02:
            new = dict(draw.choice(earlier))
            new["triton_code"] = new["triton_code"].replace("tmp3 =", "tmp3 = 2 *", 1)
        else:
            new = row(draw, number)
            if len(earlier) < 2000:
                earlier.append(new)
        new.update(
            uuid=number, licenses=[draw.choice(["MIT", "Apache-2.0", "BSD-3-Clause"])], stars=draw.randint(0, 999)
        )
        size += len(new["python_code"]) + len(new["triton_code"])
        rows.append(new)
        if len(rows) == 1000 or number + 1 == options.rows:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
            rows = []
print(
    f"{options.rows} made-up rows in the form of KernelBook, {size / options.rows / 1000:.1f} KB each -> {options.file}"
)
