"""What a forward is recorded as (worker/tritonforge_worker/plan/tensors.py), whichever device replays it."""

import os
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "worker"))
from tritonforge_worker.plan import recorder
from tritonforge_worker.plan.tensors import Record, Recording

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
