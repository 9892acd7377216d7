"""What a forward is recorded as (worker/tritonforge_worker/plan), whichever device replays it."""

import collections
import os
import pathlib
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "worker"))
from tritonforge_worker.plan import recorder
from tritonforge_worker.plan.mode import Record
from tritonforge_worker.plan.refusals import NotAPlan
from tritonforge_worker.plan.tensors import Recording

F = torch.nn.functional
LSTM_CELL = torch.nn.LSTMCell(8, 3)
ATTENTION = torch.nn.MultiheadAttention(8, 2, batch_first=True)


def steps(forward, mode):
    recording = Recording()
    x = recording.tensor(torch.empty(4, 5, 8, device="meta"), {"input": 0})
    with mode(), recorder.AsGpu(False), Record(recording):
        forward(x)
    return [step["aten"].removeprefix("aten::") for step in recording.steps]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "forward, name",
    [
        (lambda x: F.dropout(x, 0.3), "dropout"),
        (torch.nn.Dropout(0.3), "dropout"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), "scaled_dot_product_attention"),
        (lambda x: ATTENTION(x, x, x, need_weights=False), "scaled_dot_product_attention"),
        (torch.nn.BatchNorm1d(5).eval(), "batch_norm"),
        (torch.nn.InstanceNorm1d(5), "batch_norm"),
        (torch.nn.RMSNorm(8), "rms_norm"),
        (lambda x: F.softmax(x.half(), -1, dtype=torch.float32), "softmax"),
        (torch.nn.LSTM(8, 3, num_layers=2), "lstm"),
        (torch.nn.GRU(8, 3, bidirectional=True), "gru"),
        (torch.nn.RNN(8, 3), "rnn_tanh"),
        (lambda x: LSTM_CELL(x[0]), "lstm_cell"),
    ],
)
def test_what_a_gpu_does_otherwise_is_one_call(forward, name, mode):
    found = steps(forward, mode)
    assert found.count(name) == 1, found
    assert not {"bernoulli_", "_safe_softmax", "native_batch_norm", "_native_batch_norm_legit"} & set(found), found


def test_attention_is_in_the_querys_order_of_memory():
    def forward(x):
        heads = x.view(4, 5, 2, 4).transpose(1, 2)
        assert F.scaled_dot_product_attention(heads, heads, heads).stride() == heads.stride()
        wide = torch.cat([heads, heads], -1)
        assert F.scaled_dot_product_attention(heads, heads, wide).transpose(1, 2).is_contiguous()
        assert F.scaled_dot_product_attention(heads.contiguous(), heads, wide).is_contiguous()
        assert F.scaled_dot_product_attention(x, x, x).is_contiguous()

    assert steps(forward, torch.no_grad).count("scaled_dot_product_attention") == 4


def test_a_model_that_was_made_in_inference_mode_is_recorded():
    with torch.inference_mode():
        model = torch.nn.Linear(8, 3)
    described = {"dtype": "float32", "shape": [4, 8], "order": [0, 1]}
    plan, _ = recorder.record(model, {}, {"list": []}, [described], lambda tree, tensors: tensors, "")
    assert [step["aten"] for step in plan["steps"]] == ["aten::t", "aten::addmm"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_dropout_that_draws_nothing_is_no_call(mode):
    assert steps(lambda x: F.dropout(x, 0.3, training=False), mode) == []
    assert "dropout" not in steps(lambda x: F.dropout(x, 1.0), mode)


def test_tensors_that_are_not_recorded_are_computed_as_ever():
    x = torch.randn(2, 3, 4, 8)
    on_meta = F.scaled_dot_product_attention(*[x.to("meta").requires_grad_()] * 3)
    assert on_meta.shape == x.shape and on_meta.requires_grad
    assert F.dropout(x.to("meta"), 0.5).shape == x.shape
    torch.manual_seed(0)
    drawn = F.dropout(x, 0.5)
    assert torch.equal(drawn[drawn != 0], 2 * x[drawn != 0]) and (drawn == 0).any()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_torch_makes_of_few_numbers_of_the_codes_own_is_known_on_the_host(mode):
    def forward(x):
        numbers = torch.tensor([1.0, 3.0, 4.0])
        assert (numbers / numbers.sum()).max().item() == 0.5
        x * numbers[0]
        with pytest.raises(NotAPlan, match="needed on the host"):
            bool(numbers.sum().item())  # a recorded call has seen it, and may have changed it
        with pytest.raises(NotAPlan, match="needed on the host"):
            bool(torch.zeros(5000).sum().item())
        with pytest.raises(NotAPlan, match="needed on the host"):
            bool(torch.rand_like(torch.tensor([1.0])).item())

    assert "div" not in steps(forward, mode)


class Numbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.wide = torch.nn.Parameter(torch.ones(1, 1)), torch.nn.Parameter(torch.ones(2))
        self.own = torch.nn.Parameter(torch.tensor(5.0))
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("calls", torch.zeros(1))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_value_of_a_weight_of_one_element_is_known_on_the_host(mode):
    """That which is sent, else its own, and what torch makes of it, until something may have written there."""

    class Asks(Numbers):
        def forward(self, x):
            assert self.scale.item() == 3 and float(self.scale) == 3 and self.scale.tolist() == [[3.0]]
            assert self.scale.squeeze().cpu().item() == 3 and self.scale.data[0, 0].item() == 3 and self.own.item() == 5
            assert (self.scale * 2 + self.own).item() == 11 and bool(self.scale > 2) and self.scale.half().item() == 3
            y = x.new_tensor([1.0, 2.0]).sum() + x * self.scale
            assert self.count.item() == 7
            for unknown in (y.sum(), self.wide.sum(), self.wide[0], self.calls, self.scale * self.calls):
                with pytest.raises(NotAPlan, match="needed on the host"):
                    bool(unknown.item())
            total = self.own.clone()
            total.add_(y.sum())
            with pytest.raises(NotAPlan, match="needed on the host"):
                bool(total.item())
            assert self.own.item() == 5
            assert isinstance(self.own, torch.nn.Parameter) and not isinstance(self.count, torch.nn.Parameter)
            return y

    known = {"scale": {"shape": [1, 1]}, "wide": {"shape": [2]}, "count": {"shape": [1]}}
    described = {"dtype": "float32", "shape": [4, 8], "order": [0, 1]}
    numbers = {"scale": torch.full((1, 1), 3.0), "count": torch.tensor([7.0])}
    call = Asks(), known, {"list": []}, [described], lambda tree, tensors: tensors, "", ("sm_90",), recorder.Launches
    with mode():
        plan, _ = recorder.plan_of(recorder.Forward(*call, numbers))
    assert {"scale", "wide", "count"} == {value["weight"] for value in plan["values"] if "weight" in value}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_number_that_nobody_knows_is_calculated_with_as_pythons(mode):
    def forward(x):
        count, top, some = (x > 0).sum().item(), x.max().item(), (x > 0).any().item()
        for made, like in (
            (count + 1, torch.int64),
            (2 * count - some, torch.int64),
            (7 // count % 3, torch.int64),
            (count / 2, torch.float64),
            (1 - abs(-count) * 0.5, torch.float64),
            (count**2 > top, torch.bool),
        ):
            assert made.tensor.dtype == like and made.tensor.shape == ()
        half, whole, none = x.half(), x.long(), x.sum()
        for made, like in (
            (x / count, torch.float32),
            (none / count, torch.float32),
            (count / none, torch.float32),
            (top * half, torch.float16),
            (half.sum() - top, torch.float16),
            (whole * top, torch.float32),
            (whole.sum() + count, torch.int64),
            (torch.where(x > top, half, top), torch.float16),
            (torch.clamp(half, max=top), torch.float16),
        ):
            assert made.dtype == like and made.is_cuda, (made.dtype, like)
        x /= count
        x[0] = top
        assert f"{top:.3f} of {count}" == "number(...) of number(...)"
        for asks in (bool, int, float, range, round, lambda n: x[:n], lambda n: max(n, 1), lambda n: [n].index(3)):
            with pytest.raises(NotAPlan, match="needed on the host"):
                asks(count)
        with pytest.raises(RuntimeError):
            x.item()

    assert "_local_scalar_dense" not in steps(forward, mode)


def test_a_number_is_what_it_was_when_it_was_asked_for():
    def forward(x):
        number = x[0, 0, :1].item()
        x.zero_()
        return x + number

    assert steps(forward, torch.no_grad).index("_to_copy") < steps(forward, torch.no_grad).index("zero_")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_masks_that_the_code_spells_out_are_places(mode):
    rows, both = [True, False, True, True], torch.tensor([[True, False, False, True, True]] * 4)

    def forward(x):
        assert x[rows].shape == (3, 5, 8) and x[:, [False, True] * 2 + [True]].shape == (4, 3, 8)
        assert x[both].shape == (12, 8) and x[1, [True, False, True, False, False]].shape == (2, 8)
        x[rows] = 0.5
        like = torch.zeros(4, 5, 8)
        assert x[[[0, 1], [1, 0]]].shape == like[[[0, 1], [1, 0]]].shape
        with pytest.raises(IndexError, match="a mask of shape"):
            x[[True, False, True]]

    assert "nonzero" not in steps(forward, mode)


def test_counts_are_as_many_as_are_asked_for():
    def forward(x):
        counts = torch.bincount(x[:, 0, 0].long(), minlength=6)
        assert counts.shape == (6,) and counts.dtype == torch.int64
        assert torch.bincount(x[:, 0, 0].long(), x[:, 0, 1], 6).dtype == torch.float32
        with pytest.raises(NotAPlan, match="minlength="):
            torch.bincount(x[:, 0, 0].long())

    assert steps(forward, torch.no_grad).count("bincount") == 2


# What a call is on a GPU, by the name that it is recorded under.
ON_A_GPU = {
    "cudnn_batch_norm": "batch_norm",
    "native_batch_norm": "batch_norm",
    "native_dropout": "dropout",
    "_fused_rms_norm": "rms_norm",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
}
MOVES = ("detach", "view", "_unsafe_view", "expand", "clone", "transpose", "t", "permute", "empty_like", "empty")
LAYERS = {
    "linear": (lambda: torch.nn.Linear(8, 3), (4, 5, 8)),
    "linear of a transposed batch": (lambda: Transposed(torch.nn.Linear(8, 3)), (4, 5, 8)),
    "bilinear": (lambda: Twice(torch.nn.Bilinear(8, 8, 3)), (4, 8)),
    "conv": (lambda: torch.nn.Conv2d(4, 6, 3), (2, 4, 9, 9)),
    "depthwise": (lambda: torch.nn.Conv2d(4, 4, 3, groups=4), (2, 4, 9, 9)),
    "transposed conv": (lambda: torch.nn.ConvTranspose3d(4, 6, 3), (2, 4, 5, 5, 5)),
    "batch norm": (lambda: torch.nn.BatchNorm2d(4), (2, 4, 9, 9)),
    "batch norm in eval": (lambda: torch.nn.BatchNorm2d(4).eval(), (2, 4, 9, 9)),
    "instance norm": (lambda: torch.nn.InstanceNorm2d(4), (2, 4, 9, 9)),
    "layer norm": (lambda: torch.nn.LayerNorm(8), (4, 8)),
    "group norm": (lambda: torch.nn.GroupNorm(2, 4), (2, 4, 9)),
    "rms norm": (lambda: torch.nn.RMSNorm(8), (4, 8)),
    "max pool": (lambda: torch.nn.MaxPool1d(2), (2, 4, 9)),
    "adaptive pool": (lambda: torch.nn.AdaptiveAvgPool2d(1), (2, 4, 9, 9)),
    "softmax": (lambda: torch.nn.Softmax(-1), (4, 8)),
    "softmax of half": (lambda: Calls(lambda x: torch.softmax(x.half(), -1, dtype=torch.float32)), (4, 8)),
    "log softmax": (lambda: torch.nn.LogSoftmax(-1), (4, 8)),
    "dropout": (lambda: torch.nn.Dropout(0.3), (4, 8)),
    "gelu": (torch.nn.GELU, (4, 8)),
    "glu": (torch.nn.GLU, (4, 8)),
    "cosine": (lambda: Twice(torch.nn.CosineSimilarity()), (4, 8)),
    "smooth l1": (lambda: Twice(torch.nn.SmoothL1Loss()), (4, 8)),
    "kl": (lambda: Twice(torch.nn.KLDivLoss(reduction="batchmean")), (4, 8)),
    "distance": (lambda: Twice(torch.nn.PairwiseDistance()), (4, 8)),
    "einsum": (lambda: Calls(lambda x: torch.einsum("bij,bkj->bik", x, x)), (4, 5, 8)),
    "interpolate": (lambda: torch.nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 9, 9)),
    "norm": (lambda: Calls(lambda x: x / torch.norm(x, p=2, dim=1, keepdim=True)), (4, 8)),
    "cumsum": (lambda: Calls(lambda x: torch.cumsum(x, 1)), (4, 8)),
}


class Calls(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


class Twice(Calls):
    def forward(self, x):
        return self.call(x, x)


class Transposed(Calls):
    def forward(self, x):
        return self.call(x.transpose(0, 1))


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def counted(names):
    short = [name.removeprefix("aten::") for name in names if name.startswith("aten::")]
    return collections.Counter(ON_A_GPU.get(name, name) for name in short if name not in MOVES)


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_recorded_is_what_torch_dispatches_on_a_gpu(name):
    """No GPU is needed to ask torch: its fake tensors have a device without memory."""
    make, shape = LAYERS[name]
    with FakeTensorMode(), torch.device("cuda"), torch.no_grad():
        model, x = make(), torch.randn(shape)
        with Log() as log:
            model(x)
    model = make()
    described = {"dtype": "float32", "shape": list(shape), "order": list(range(len(shape)))}
    known = {weight: {"shape": list(tensor.shape)} for weight, tensor in recorder.state_of(model).items()}
    call = {"list": [{"tensor": 0}]}, [described]
    plan, _ = recorder.record(model, known, *call, lambda tree, tensors: tensors, "")
    assert counted(step["aten"] for step in plan["steps"]) == counted(log.names)
